import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { onStage, users, whoIs } from "./stage.ts";

const cases = users.flatMap((user) =>
  (["bwrap", "landlock"] as const).map((mode) => ({ user, mode, title: `${mode}, ${whoIs(user)}` })),
);

test.each(cases)("$title: memory and processes are held, or it is said what is not", async (who) => {
  const { args, env } = await onStage(who, "limited-service.ts", who.mode);
  const { stdout } = await promisify(execFile)("unshare", args, { env, cwd: "/" });
  const { limits, warnings, output, exceeded } = JSON.parse(stdout) as Record<"limits" | "output", string> & {
    warnings: string[];
    exceeded: number | null;
  };
  // With an rlimit nothing is killed: a program is told that there is no more.
  expect(exceeded).toBe(limits === "cgroup" ? 300 * 2 ** 20 : null);
  expect(output).toMatch(/^took 50\nstarted \d+\n$/);
  const started = Number(/started (\d+)/.exec(output)?.[1]);
  // The kernel counts the processes of root nowhere but in control groups, and those of others only in their namespace.
  const isHeld = limits === "cgroup" || (who.user === "user" && who.mode === "bwrap");
  expect(limits).toMatch(isHeld ? /^(cgroup|rlimit)$/ : /^none$/);
  expect(warnings.join("\n")).toMatch(
    isHeld ? /^$/ : /^The sandbox's limit of the number of processes is not held.*$/,
  );
  expect(started).toBeGreaterThan(20);
  expect(started).toBeLessThanOrEqual(isHeld ? 30 : 60);
});
