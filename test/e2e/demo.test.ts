import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";

const run = promisify(execFile);

test("the demo says that its model is scripted, shows the job live and ends with its branch", async () => {
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, "../../demo/demo.ts")], {
    env: { PATH: process.env["PATH"], HOME: "/nonexistent" },
    timeout: 120_000,
  });
  const directory = /Everything is in (\S+);/.exec(stdout)?.[1];
  if (directory !== undefined) afterFile(() => rm(directory, { recursive: true, force: true }));
  expect(stdout.split("\n")[0]).toMatch(/^Model: NONE\. .*scripted offline/);
  for (const stage of ["claimed", "worktree ready", "agent started", "result", "pushed"])
    expect(stdout).toContain(stage);
  for (const fact of [
    /Status\s+succeeded/,
    /Branch\s+service\//,
    /Changes\s+2 files/,
    /Cost\s+\$/,
    /nothing was spent/,
  ]) {
    expect(stdout).toMatch(fact);
  }
  expect(stdout).not.toContain('"level"');
});
