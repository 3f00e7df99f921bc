import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { isBelow } from "../lib/is-below.ts";
import { landlockPrefix, landlockTrial, landlockVersion } from "../lib/process/landlock.ts";
import type { Configuration } from "./configuration.ts";
import type { Kind } from "./sandbox.ts";

/**
 * Landlock, for where namespaces are refused: what a process may open and connect to.
 * @throws Error with a sentence for the operator
 */
export const findLandlock = async (): Promise<Kind> => {
  const version = await landlockVersion();
  const hasMounts = await canMount();
  const open = gaps.filter(([needed]) => version < needed).map(([, what]) => what);
  return {
    mode: "landlock",
    sharesNetwork: true,
    countsApart: false,
    open,
    trial: landlockTrial(),
    explain: async (stderr) => `Landlock does not start: ${stderr.trim().slice(0, 300) || "it says nothing"}`,
    wrap: async ({ ports = [], allowed }, { directory, door, limits, loopback, configuration, ...place }) => {
      const [home, temporary] = [join(directory, "home"), join(directory, "tmp")];
      for (const path of [home, temporary]) await mkdir(path, { mode: 0o700 });
      // What may write there would write in the service's places below it, too.
      const places = [directory, ...place.readable, ...place.writable];
      const isFree = !places.some((path) => isBelow(path, "/dev/shm"));
      const shared = isFree ? ["/dev/shm", ...(hasMounts ? terminals : [])] : [];
      const fence = landlockPrefix({
        readable: [...system, ...placesIn(configuration), ...place.readable],
        listed: configuration.parents,
        sharedBytes: hasMounts && isFree ? allowed.temporaryBytes : null,
        writable: [...devices, ...shared, home, temporary, ...place.writable],
        ports: [door.port ?? 0, ...loopback.map(({ port }) => port)],
        ownPorts: ports,
      });
      return {
        box: { prefix: [...limits.outside, ...limits.inside, ...fence], filter: null },
        // Not the Unix socket. Landlock does not keep a run from those of others, such as D-Bus, so it may have none at all.
        model: { origin: `http://127.0.0.1:${door.port}`, socket: null },
        proxy: `127.0.0.1:${door.port}`,
        env: { HOME: home, TMPDIR: temporary },
        warnings: [],
      };
    },
    confine: ({ readable, writable }) => {
      const all = {
        readable: [...system, "/etc/ld.so.cache", ...readable],
        writable: [...devices, ...writable],
      };
      return { prefix: landlockPrefix({ ...all, ports: [], alone: true }), filter: null };
    },
  };
};

/** What Landlock knows is places, and a link is none: it is read anyhow, and leads to a place that is shown or is not. */
const placesIn = ({ shown }: Configuration): string[] =>
  shown.flatMap(({ path, target }) => (target === null ? [path] : []));

/** Whether runs can have mounts of their own here. Containers and AppArmor refuse them. */
const canMount = async (): Promise<boolean> => {
  const tried = landlockPrefix({ readable: system, writable: [], ports: [], sharedBytes: 2 ** 20 });
  const [command, ...args] = [...tried, "/bin/true"];
  return promisify(execFile)(command, args).then(
    () => true,
    () => false,
  );
};

/** Versions that first limit it. */
const gaps: readonly [version: number, what: string][] = [
  [3, "truncating files (Linux 6.2 does)"],
  [4, "TCP connections (Linux 6.7 does)"],
  [6, "signals to other processes (Linux 6.12 does)"],
];

const system = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc"];
const devices = ["null", "zero", "full", "random", "urandom", "tty"].map((name) => `/dev/${name}`);
/** Only of its own: whoever opens another's terminal reads what is typed there. */
const terminals = ["/dev/ptmx", "/dev/pts"];
