import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { landlockPrefix, landlockTrial, landlockVersion } from "../lib/process/landlock.ts";
import type { Kind } from "./sandbox.ts";

/**
 * Landlock, for where namespaces are refused: what a process may open and connect to.
 * @throws Error with a sentence for the operator
 */
export const findLandlock = async (): Promise<Kind> => {
  const version = await landlockVersion();
  const open = gaps.filter(([needed]) => version < needed).map(([, what]) => what);
  return {
    mode: "landlock",
    sharesNetwork: true,
    countsApart: false,
    open,
    trial: landlockTrial(),
    explain: async (stderr) => `Landlock does not start: ${stderr.trim().slice(0, 300) || "it says nothing"}`,
    wrap: async ({ ports = [] }, { directory, door, limits, loopback, ...place }) => {
      const [home, temporary] = [join(directory, "home"), join(directory, "tmp")];
      for (const path of [home, temporary]) await mkdir(path, { mode: 0o700 });
      const fence = landlockPrefix({
        readable: [...system, ...place.optional, ...place.readable],
        writable: [...devices, home, temporary, ...place.writable],
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

/** Versions that first limit it. */
const gaps: readonly [version: number, what: string][] = [
  [3, "truncating files (Linux 6.2 does)"],
  [4, "TCP connections (Linux 6.7 does)"],
  [6, "signals to other processes (Linux 6.12 does)"],
];

const system = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc"];
const devices = ["null", "zero", "full", "random", "urandom"].map((name) => `/dev/${name}`);
