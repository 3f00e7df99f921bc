import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findExecutable } from "../lib/process/executable.ts";
import { bwrapArguments, modelHost, socketInside, type View } from "./arguments.ts";
import { explain, machineFacts } from "./probe.ts";
import type { Kind, Place } from "./sandbox.ts";
import { systemCallFilter } from "../lib/process/seccomp.ts";

/** bubblewrap: a root, processes and a network of its own. @throws Error with a sentence for the operator */
export const findBwrap = async (): Promise<Kind> => {
  const found = await findExecutable("bwrap", process.env["PATH"] ?? "");
  if (!found.ok) throw new Error(explain({ ...(await machineFacts()), stderr: null }));
  const socat = await findExecutable("socat", "/usr/bin:/bin");
  return {
    mode: "bwrap",
    sharesNetwork: false,
    // Root's processes are never counted.
    countsApart: process.getuid?.() !== 0,
    open: [],
    trial: ["true"],
    explain: async (stderr) => explain({ ...(await machineFacts()), stderr }),
    wrap: async (
      { home, allowed, mounts = [] },
      { directory, door, limits, loopback, configuration, ...place },
    ) => {
      const filter = join(directory, "seccomp");
      await writeFile(filter, systemCallFilter({ sockets: "usual" }), { mode: 0o600 });
      const { hosts, temporaryBytes } = allowed;
      const view: View = {
        ...place,
        home,
        mounts,
        temporary: { path: "/tmp", bytes: temporaryBytes },
        machine: [...rootLinks, ...configuration.shown],
        socket: door.socket,
        seccomp: 3,
      };
      const forwarders = socat.ok ? forwarding(socat.path, loopback) : "";
      const shell = ["/bin/sh", "-c", `${unlessOrphaned}${forwarders}exec "$@"`, "sh"];
      const prefix = [...limits.outside, found.path, ...bwrapArguments(view), ...limits.inside, ...shell];
      return {
        box: { prefix, filter },
        model: { origin: `http://${modelHost}`, socket: socketInside },
        proxy: `127.0.0.1:${proxyPort}`,
        env: { TMPDIR: "/tmp" },
        warnings: !socat.ok && hosts.length > 0 ? [noForwarder] : [],
      };
    },
    confine: (use) => ({
      prefix: [found.path, ...bwrapArguments({ ...alone, ...use })],
      filter: systemCallFilter({ sockets: "none" }),
    }),
  };
};

/** Where CLIs that want TCP find the door inside. */
const proxyPort = 3128;

/**
 * bubblewrap ties itself to the life of the service some 20 ms after its start, and does not see that the service ended before.
 * Here it has done so, and a service that has ended does not answer.
 */
const unlessOrphaned = "echo >&4; read -r _ <&4 || exit 1; exec 4>&-; ";

/**
 * Starts forwarders beside the program, and waits until they listen: for proxies, and for each port of the
 * host's loopback that the operator allows, because no client asks a proxy for that.
 */
const forwarding = (program: string, loopback: Place["loopback"]): string => {
  // Operator and secrets may name the same port, at which one can listen.
  const all = new Map(
    loopback.map(({ name, port }) => [port, `PROXY:127.0.0.1:${name}:${port},proxyport=${proxyPort}`]),
  ).set(proxyPort, `UNIX-CONNECT:${socketInside}`);
  const starts = Array.from(
    all,
    ([port, target]) =>
      `${program} TCP-LISTEN:${port},bind=127.0.0.1,fork,reuseaddr ${target} >/dev/null 2>&1 </dev/null & `,
  );
  // One line each, and that of the headings. One that cannot listen is not waited for for ever.
  const wait = `n=0; until [ $(wc -l </proc/net/tcp) -gt ${all.size} ] || [ $n = 200 ]; do n=$((n+1)); sleep 0.005; done; `;
  return starts.join("") + wait;
};

const noForwarder = "The agent reaches no hosts, because socat is not installed: apt-get install socat";

/** As this machine has them: links into /usr, or directories. */
const rootLinks: View["machine"] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
  .filter((path) => existsSync(path))
  .map((path) => ({ path, target: lstatSync(path).isSymbolicLink() ? readlinkSync(path) : null }));

/** What a short program has beside the paths that are named. */
const alone = {
  home: "/home/agent",
  mounts: [],
  temporary: { path: "/tmp", bytes: 64 * 1024 * 1024 },
  machine: [...rootLinks, ...["/etc/passwd", "/etc/ld.so.cache"].map((path) => ({ path, target: null }))],
  socket: null,
  seccomp: 3,
};
