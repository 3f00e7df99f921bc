import { existsSync } from "node:fs";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { until } from "../until.ts";
import { startLossyProxy } from "./store-proxy.ts";

/** Where an instance has done something that it has not told yet: its push, the job's end, the work it saved while settling. */
export const windows = ["after the push", "before the outcome", "inside settling"] as const;
export type Window = (typeof windows)[number];

/**
 * What holds up an instance in such a window, from outside: git, which waits after what it has done, and a way to the store
 * that does not pass on how a job ended. The instance has to be killed then.
 */
export const openWindows = async (directory: string, kvUrl: string) => {
  await mkdir(directory, { recursive: true });
  await symlink(join(import.meta.dirname, "pausing-git"), join(directory, "git"));
  const proxy = await startLossyProxy(Number(new URL(kvUrl).port));

  const heldByGit = async (name: "push" | "salvage", seconds: number): Promise<boolean> => {
    const file = join(directory, name);
    await rm(`${file}.met`, { force: true });
    await writeFile(file, "");
    const met = await until(() => existsSync(`${file}.met`), { seconds }).catch(() => false);
    await rm(file, { force: true });
    return met;
  };

  return {
    env: { PATH: `${directory}:${process.env["PATH"]}`, KV_URL: proxy.url },
    /** Resolves to whether the instance has come to the window in time; it stays there. */
    hold: async (window: Window, seconds = 15): Promise<boolean> => {
      if (window !== "before the outcome")
        return await heldByGit(window === "after the push" ? "push" : "salvage", seconds);
      const waiting = new AbortController();
      const met = proxy.holdBack('"status":"succeeded"', waiting.signal).then(() => true);
      const none = delay(seconds * 1000, false, { signal: waiting.signal });
      return await Promise.race([met, none.catch(() => false)]).finally(() => waiting.abort());
    },
  };
};

export type Windows = Awaited<ReturnType<typeof openWindows>>;
