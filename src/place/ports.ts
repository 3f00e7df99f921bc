import { createServer, type ListenOptions, type Server } from "node:net";

/** Ports of one job, until they are disposed of or this process ends. */
export type Ports = AsyncDisposable & { numbers: number[]; env: { PORT: string; PORT_COUNT: string } };

/** Ports that a job gets. */
const count = 10;

/**
 * Reserves the first ten ports in a row, from a multiple of ten on, that no other service of this machine has reserved and
 * on which nobody listens. `range`: the first and the last, `20000-29999`. Null: it has none.
 *
 * The reservation is an abstract socket, whose name belongs to the network namespace, as ports do, whatever user and
 * directories a service has. The kernel frees it when this process ends, however it ends.
 */
export const reservePorts = async (range: string): Promise<Ports | null> => {
  const [first = 0, last = 0] = range.split("-").map(Number);
  for (let port = Math.ceil(first / count) * count; port + count - 1 <= last; port += count) {
    const holder = await listen({ path: `\0service-ports-${port}` });
    if (holder === null) continue;
    if (await areFree(port))
      return {
        numbers: inARow(port),
        env: { PORT: String(port), PORT_COUNT: String(count) },
        [Symbol.asyncDispose]: () => close(holder),
      };
    await close(holder);
  }
  return null;
};

/** Variables without those of `Ports`, which differ from job to job. */
export const withoutPorts = (env: Readonly<Record<string, string>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => name !== "PORT" && name !== "PORT_COUNT"));

export const noPorts = (range: string): string =>
  `The job has no PORT: ten free ports in a row are not left in SERVICE_PORT_RANGE (${range})`;

const inARow = (first: number): number[] => Array.from({ length: count }, (_, nth) => first + nth);

const areFree = async (port: number): Promise<boolean> => {
  for (const each of inARow(port)) {
    // It is refused as well where somebody listens on all addresses.
    const server = await listen({ host: "127.0.0.1", port: each });
    if (server === null) return false;
    await close(server);
  }
  return true;
};

/** Null: the address is not to be had. */
const listen = (address: ListenOptions): Promise<Server | null> =>
  new Promise((resolve) => {
    const server = createServer((socket) => socket.destroy()).unref();
    server.once("error", () => resolve(null)).listen({ ...address, exclusive: true }, () => resolve(server));
  });

const close = (server: Server): Promise<void> =>
  new Promise((resolve) => {
    server.close(() => resolve());
  });
