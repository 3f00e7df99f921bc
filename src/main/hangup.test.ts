import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { Job } from "../contract/job.ts";
import { startService } from "../../test/service.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { initialize, startRaw, submit } from "./stdio.fixture.ts";

const deaf = 'scenario: hang {"ignoreTerm": true, "after": 1}';

/** Process id of the job's agent, once it is at work: before that its job would be queued again. */
const agentOf = (home: string, job: string): Promise<number> =>
  until(async () => {
    const events = await readFile(`${home}/.service/jobs/events/${job}.ndjson`, "utf8");
    const { pid } = (await recordOf(home, job)) as Pick<Job, "pid">;
    return events.includes('"first_output"') ? pid : null;
  });

const recordOf = async (home: string, job: string): Promise<unknown> =>
  JSON.parse(await readFile(`${home}/.service/jobs/${job}.json`, "utf8"));

test("when its terminal goes, a service on stdio ends its agents, deaf ones too, before it ends", async () => {
  const home = await temporaryDirectory();
  const raw = startRaw(home);
  await raw.ask("initialize", initialize);
  const job = await submit(raw, deaf);
  const agent = await agentOf(home, job);
  // The kernel tells it, and so does the shell.
  await until(() => isGone(agent) || !raw.child.kill("SIGHUP"));
  expect(await raw.exited).toEqual([0, null]);
  expect(() => process.kill(agent, 0)).toThrow("ESRCH");
  expect(await recordOf(home, job)).toMatchObject({ status: "failed", failure_reason: "instance_lost" });
});

test("when its terminal goes, a service on HTTP ends its agents, deaf ones too, before it ends", async () => {
  const service = await startService();
  const { job } = await service.client.run_task({ task: deaf });
  const agent = await agentOf(service.home, job.id);
  process.kill(service.pid, "SIGHUP");
  await until(() => isGone(service.pid), { what: "the service to end" });
  expect(() => process.kill(agent, 0)).toThrow("ESRCH");
  expect(await service.stop()).toBe(0);
  expect(await recordOf(service.home, job.id)).toMatchObject({ failure_reason: "instance_lost" });
});

const isGone = (pid: number): boolean => {
  try {
    return process.kill(pid, 0) && false;
  } catch {
    return true;
  }
};
