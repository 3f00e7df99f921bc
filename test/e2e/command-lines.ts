import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** Command line of every process below a pid, looked at all the time until `stop`, which resolves to all that was seen. */
export const watchCommandLines = (pid: number) => {
  const seen = new Set<string>();
  let stopped = false;
  const loop = (async () => {
    while (!stopped) {
      for (const process of descendants(pid)) seen.add(commandLine(process));
      await delay(40);
    }
  })();
  return {
    stop: async (): Promise<string[]> => {
      stopped = true;
      await loop;
      return [...seen];
    },
  };
};

const descendants = (pid: number): number[] => {
  const children = threads(pid).flatMap((thread) =>
    (read(`/proc/${pid}/task/${thread}/children`) ?? "").split(" ").filter(Boolean).map(Number),
  );
  return [pid, ...children.flatMap(descendants)];
};

const threads = (pid: number): string[] => {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    // Gone meanwhile.
    return [];
  }
};

const commandLine = (pid: number): string => (read(`/proc/${pid}/cmdline`) ?? "").replaceAll("\0", " ");

const read = (path: string): string | null => {
  try {
    return readFileSync(path, "latin1");
  } catch {
    // Gone meanwhile.
    return null;
  }
};
