import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { asks } from "../asks.ts";
import { afterFile } from "../cleanup.ts";
import { branchesOf, hostVariables, startHost } from "../e2e/hosted.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";

/** A PATH on which gh waits as long as `hold` exists. */
const slowGh = async () => {
  const directory = await temporaryDirectory();
  const [bin, hold] = [join(directory, "bin"), join(directory, "hold")];
  const path = process.env["PATH"] ?? "";
  const real = await findExecutable("gh", path);
  if (!real.ok) throw new Error(real.message);
  await mkdir(bin);
  await writeFile(hold, "");
  const script = `#!/bin/sh\nwhile [ -e "${hold}" ]; do sleep 0.05; done\nexec "${real.path}" "$@"\n`;
  await writeFile(join(bin, "gh"), script);
  await chmod(join(bin, "gh"), 0o755);
  const release = (): Promise<void> => rm(hold, { force: true });
  afterFile(release);
  return { path: `${bin}:${path}`, release };
};

test.each(["kill", "stop"] as const)(
  "a job whose service ends by a %s between its push and its pull request has succeeded, and names what is not known",
  async (how) => {
    const [host, gh] = [await startHost(), await slowGh()];
    const repository = await host.createRepository("acme", "app");
    const env = { ...hostVariables(host, host.createToken()), PATH: gh.path };
    const service = await startService({ env });
    const { id } = await asks(service).submit({ task: "scenario: work", repo_url: repository.url });
    await until(async () => (await branchesOf(repository)).length === 2, { seconds: 60, what: "the push" });
    await asks(service).when(id, ({ stages }) => stages.at(-1)?.stage === "pushed", "to be pushed");
    await service[how]();
    await gh.release();
    const again = asks(await startService({ home: service.home, env }));
    const job = await again.ended(id);
    expect(job).toMatchObject({
      status: "succeeded",
      attempt: 1,
      error: null,
      pr_url: null,
      salvage_ref: null,
    });
    expect(job).toMatchObject({
      output: expect.stringContaining("Done") as string,
      num_turns: expect.any(Number),
    });
    expect(await branchesOf(repository)).toContain(job.branch);
    expect(job.warnings).toEqual([expect.stringContaining(`The branch ${String(job.branch)} was pushed`)]);
  },
  120_000,
);
