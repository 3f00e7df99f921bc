import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { jobVariable } from "../../src/lib/process/marker.ts";
import { findMarked, isRunning } from "../processes.ts";
import { until } from "../until.ts";
import { onStage, users, whoIs } from "./stage.ts";

/** A service, and its agent in the sandbox, which has a detached child and one that is deaf to TERM and INT. */
const start = async (user: (typeof users)[number]) => {
  const marker = { name: jobVariable, value: randomUUID() };
  const { args, env } = await onStage({ user }, "killed-service.ts", marker.value);
  const service = spawn("unshare", args, { env, cwd: "/", stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  service.stdout.on("data", (piece: Buffer) => (output += piece.toString()));
  const closed = once(service, "close");
  const lines = () => output.split("\n").filter((line) => line !== "");
  const bwrap = await until(() => lines()[0], { what: "the agent and its children" });
  return {
    marker,
    pids: { service: service.pid ?? 0, bwrap: Number(JSON.parse(bwrap).pid), agent: await agentOf(marker) },
    /** What the service told at the end; null: it was killed before. */
    told: async (): Promise<{ said: string; survivors: number[] } | null> => {
      await closed;
      const [, last] = lines();
      return last === undefined ? null : JSON.parse(last);
    },
  };
};

const agentOf = async (marker: { name: string; value: string }): Promise<number> => {
  for (const { pid } of await findMarked(marker))
    if (/^[^\0]+\0agent\.sh\0$/.test(await readFile(`/proc/${pid}/cmdline`, "latin1"))) return pid;
  throw new Error("there is no agent");
};

/** Whether the agent has the time for last words. */
const matrix = [
  ["service", "SIGTERM", true],
  ["service", "SIGINT", true],
  ["service", "SIGKILL", false],
  ["bwrap", "SIGTERM", false],
  ["bwrap", "SIGINT", false],
  ["bwrap", "SIGKILL", false],
  ["agent", "SIGTERM", true],
  ["agent", "SIGINT", false],
  ["agent", "SIGKILL", false],
] as const;

describe.each(users)("as %s", (user) => {
  test.each(matrix)(
    `%s of ${whoIs(user)} gets %s: a second after its end nothing of the run is left (last words: %s)`,
    async (target, signal, hasLastWords) => {
      const { marker, pids, told } = await start(user);
      const all = (await findMarked(marker)).map(({ pid }) => pid);
      expect(all.length).toBeGreaterThanOrEqual(5);
      process.kill(pids[target], signal);
      await until(() => !isRunning(pids[target]), { what: `the end of ${target}` });
      const ended = performance.now();
      await until(() => !all.some(isRunning), { what: "the end of the rest" });
      expect(performance.now() - ended).toBeLessThan(1000);
      expect(await findMarked(marker)).toEqual([]);
      const last = await told();
      expect(last?.survivors ?? []).toEqual([]);
      expect(!hasLastWords || last?.said.includes("last words")).toBe(true);
    },
  );

  test(`SIGKILL of ${whoIs(user)} while sandboxes start: nothing of any of them is left`, async () => {
    const marker = { name: jobVariable, value: randomUUID() };
    const { args, env } = await onStage({ user }, "killed-service.ts", marker.value, "starting");
    const service = spawn("unshare", args, { env, cwd: "/", stdio: ["ignore", "pipe", "inherit"] });
    const [line]: unknown[] = await once(service.stdout, "data");
    expect(String(line)).toContain("pid");
    // More than start at a time: some have just begun, and some run.
    await until(async () => (await findMarked(marker)).length > 40, { what: "agents" }).finally(() =>
      service.kill("SIGKILL"),
    );
    await until(async () => (await findMarked(marker)).length === 0, { what: "the end of all" });
  });
});
