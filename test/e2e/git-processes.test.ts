import { chmod, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/** What `off` starts plainly, the other modes start behind the wall. */
test("the service starts git at most 24 times in the worktree of a job that changes and pushes", async () => {
  const directory = await temporaryDirectory();
  const log = join(directory, "git.log");
  const bin = join(directory, "bin");
  await mkdir(bin);
  await writeFile(
    join(bin, "git"),
    `#!/bin/sh\necho "\${GIT_WORK_TREE:+worktree} $*" >>${log}\nPATH=/usr/bin:/bin exec /usr/bin/git "$@"\n`,
  );
  await chmod(join(bin, "git"), 0o755);
  const env = { SERVICE_AGENT_SANDBOX: "off", PATH: `${bin}:${process.env["PATH"] ?? ""}` };
  const { client } = await startService({ env });
  const remote = await makeRemote();
  const run = async () => {
    const before = (await readFile(log, "utf8").catch(() => "")).length;
    const task = `scenario: shell ${JSON.stringify({ run: "echo one >README.md; echo two >new.txt" })}`;
    const { job } = await client.run_task({ task, repo_url: remote.path, wait: true });
    expect(job).toMatchObject({ status: "succeeded", outcome: "changed" });
    return (await readFile(log, "utf8")).slice(before).trimEnd().split("\n");
  };
  await run();
  const lines = await run();
  const inWorktree = lines.filter((line) => line.startsWith("worktree "));
  expect(inWorktree.length).toBeLessThanOrEqual(24);
  expect(inWorktree.length).toBeGreaterThan(5);
});
