import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { svcProgram, type Service } from "../service-process.ts";
import { until } from "../until.ts";

const [node, ...program] = svcProgram;

/** The service with something in it that measures. */
export const probedProgram = [
  node,
  "--expose-gc",
  "--import",
  join(import.meta.dirname, "probe.mjs"),
  ...program,
] as const;

/** What is measured in such a service. */
export const probeOf = ({ url, output, pid }: Service) => {
  const reports = (what: string): number[] =>
    [...output.stderr.matchAll(new RegExp(`^probe: ${what} (\\d+)$`, "gm"))].map(([, value]) =>
      Number(value),
    );
  let seen = 0;
  return {
    /** The longest block of the event loop since this was last asked, CPU ms; 0: none worth telling. */
    block: async (): Promise<number> => {
      // Its answer comes after all earlier reports; the next turn of our event loop has read them.
      await (await fetch(`${url}/health`)).arrayBuffer();
      await turn();
      const blocks = reports("blocked");
      return Math.max(0, ...blocks.slice(seen, (seen = blocks.length)));
    },
    /** Bytes after a collection. */
    heap: async (): Promise<number> => {
      const before = reports("heap").length;
      process.kill(pid, "SIGUSR2");
      return await until(() => reports("heap")[before], { what: "the size of the heap" });
    },
    /** Open files and connections. */
    files: async (): Promise<number> => (await readdir(`/proc/${pid}/fd`)).length,
    /** The most memory that the process has had, bytes. */
    peak: async (): Promise<number> =>
      Number(/VmHWM:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024,
  };
};
