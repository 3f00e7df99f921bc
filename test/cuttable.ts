import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterFile } from "./cleanup.ts";

/** A way to a loopback port that can be cut and mended: a network that fails for one of several. Closed after the file. */
export const cuttableWay = async (first: number) => {
  let to = first;
  const sockets = new Set<Socket>();
  let isCut = false;
  const server = createServer((from) => {
    if (isCut) return void from.destroy();
    const onward = connect({ port: to, host: "127.0.0.1", noDelay: true });
    for (const [one, other] of [
      [from, onward],
      [onward, from],
    ] as const) {
      sockets.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cutOff = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  afterFile(() => {
    cutOff();
    server.close();
  });

  return {
    port: (server.address() as AddressInfo).port,
    /** Ends what is connected; who tries again gets through. */
    interrupt: cutOff,
    /** Who connects from now on gets to another port. */
    leadTo: (port: number): void => void (to = port),
    /** Refuses all connections until `mend`. */
    cut: (): void => {
      isCut = true;
      cutOff();
    },
    mend: (): void => {
      isCut = false;
    },
  };
};
