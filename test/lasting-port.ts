import { once } from "node:events";
import { createServer } from "node:net";

/** Each of vitest's four workers has ports of its own, and gives none twice: what is about to listen there is not disturbed. */
const range = 2500;
const first = 20_000 + (Number(process.env["VITEST_POOL_ID"] ?? 0) % 4) * range;
let next = Math.floor(Math.random() * range);

/**
 * A free loopback port that stays free while nobody of ours listens on it: below the range from which the kernel takes
 * the ports that it chooses itself. For what is stopped and started again on the same port.
 */
export const lastingPort = async (): Promise<number> => {
  for (;;) {
    const port = first + (next++ % range);
    const server = createServer().listen(port, "127.0.0.1");
    // `once` rejects on the server's error event: the port is in use.
    const free = await once(server, "listening").then(
      () => true,
      () => false,
    );
    if (!free) continue;
    server.close();
    await once(server, "close");
    return port;
  }
};
