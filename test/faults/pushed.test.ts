import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { asks } from "../asks.ts";
import { afterFile } from "../cleanup.ts";
import { branchesOf, hostVariables, startHost } from "../e2e/hosted.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/** A PATH on which gh waits as long as `hold` exists. */
const slowGh = async () => {
  const directory = await temporaryDirectory();
  const [bin, hold] = [join(directory, "bin"), join(directory, "hold")];
  const path = process.env["PATH"] ?? "";
  const real = await findExecutable("gh", path);
  if (!real.ok) throw new Error(real.message);
  await mkdir(bin);
  const script = `#!/bin/sh\nwhile [ -e "${hold}" ]; do sleep 0.05; done\nexec "${real.path}" "$@"\n`;
  await writeFile(join(bin, "gh"), script);
  await chmod(join(bin, "gh"), 0o755);
  const release = (): Promise<void> => rm(hold, { force: true });
  afterFile(release);
  return { path: `${bin}:${path}`, wait: () => writeFile(hold, ""), release };
};

test("a job whose service ends, by a kill or a stop, between its push and its pull request has succeeded, and names what is not known", async () => {
  const [host, gh] = [await startHost(), await slowGh()];
  const repository = await host.createRepository("acme", "app");
  const env = { ...hostVariables(host, host.createToken()), PATH: gh.path };
  let service = await startService({ env });
  for (const how of ["kill", "stop"] as const) {
    await gh.wait();
    const { id } = await asks(service).submit({ task: "scenario: work", repo_url: repository.url });
    await asks(service).when(id, ({ stages }) => stages.at(-1)?.stage === "pushed", "to be pushed");
    await service[how]();
    await gh.release();
    service = await startService({ home: service.home, env });
    const job = await asks(service).ended(id);
    expect(job).toMatchObject({
      status: "succeeded",
      attempt: 1,
      error: null,
      pr_url: null,
      salvage_ref: null,
      output: expect.stringContaining("Done") as string,
      num_turns: expect.any(Number) as number,
      warnings: [expect.stringContaining(`The branch ${String(job.branch)} was pushed`)],
    });
    expect(await branchesOf(repository)).toContain(job.branch);
  }
});
