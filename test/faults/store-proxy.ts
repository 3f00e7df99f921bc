import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { afterFile } from "../cleanup.ts";

/** How long the store gets to do what its answer is lost of, ms. */
const untilDone = 100;

/**
 * Stands between instances and a store. Told to, it loses the answer to a command: the store gets and does it, and the
 * connection breaks instead of the answer. Or it holds a command back. Closed after the file.
 */
export const startLossyProxy = async (port: number) => {
  const sockets = new Set<Socket>();
  let wanted: string | null = null;
  let lost = 0;
  let holding: { text: string; met: () => void } | null = null;

  const pass = (client: Socket): void => {
    const store = connect(port, "127.0.0.1");
    let breaking = false;
    let isHeld = false;
    for (const socket of [client, store]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        sockets.delete(socket);
        client.destroy();
        store.destroy();
      });
    }
    client.on("data", (data) => {
      if (holding !== null && data.includes(holding.text)) {
        isHeld = true;
        holding.met();
        holding = null;
      }
      if (isHeld) return;
      if (wanted !== null && data.includes(wanted)) {
        wanted = null;
        breaking = true;
        // Not at once: what the store has not read yet when its connection breaks it never does.
        setTimeout(() => {
          lost += 1;
          client.destroy();
        }, untilDone);
      }
      store.write(data);
    });
    store.on("data", (data) => {
      if (!breaking) client.write(data);
    });
  };

  const server = createServer(pass).listen(0, "127.0.0.1");
  await once(server, "listening");
  afterFile(async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, "close");
  });
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** The next command that has this text in it is done without its answer getting through. */
    loseAnswerTo: (text: string): void => void (wanted = text),
    /** Neither the next command that has this text in it nor what follows it there gets to the store. Resolves when it came. */
    holdBack: (text: string, signal: AbortSignal): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const held = { text, met: resolve };
      holding = held;
      signal.addEventListener("abort", () => (holding = holding === held ? null : holding));
      return promise;
    },
    /** How many answers were lost. */
    lost: (): number => lost,
  };
};
