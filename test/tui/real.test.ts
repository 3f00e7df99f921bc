import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { startService, type Service } from "../service.ts";
import { until } from "../until.ts";
import { startTmux, type Tmux } from "./terminal.ts";

let jobsOnly: Service;
let agent: Service;
let tmux: Tmux;
beforeAll(async () => {
  [jobsOnly, agent, tmux] = await Promise.all([
    startService(),
    startService({ env: { AGENT_MODE: "true" } }),
    startTmux(),
  ]);
});

test.concurrent("a job is submitted, followed, its change read and it is cancelled, all by keyboard", async () => {
  const terminal = await tmux.open({ env: { SERVICE_REMOTES: jobsOnly.url }, columns: 100 });
  await terminal.shows("1 instance", "orchestrator");
  await terminal.press("1");
  await terminal.shows("Submit job");
  await terminal.press("1");
  await terminal.shows("in plain words");
  await terminal.type('Count. scenario: paced {"steps": 5000, "ms": 100}');
  await terminal.shows('"ms": 100}');
  await terminal.press("Enter", "Enter");
  await terminal.shows("running", "first output", "following");
  const { jobs } = await jobsOnly.client.list_jobs({});
  const [job] = jobs;
  expect(job?.task).toBe('Count. scenario: paced {"steps": 5000, "ms": 100}');
  await until(async () => (await jobsOnly.client.get_diff({ job_id: job?.id ?? "" })).files.length > 0);
  await terminal.press("d");
  await terminal.shows("Change of job", "+++ b/");
  await terminal.press("Escape");
  await terminal.shows("c cancel");
  await terminal.press("c");
  await terminal.shows("? y/N");
  await terminal.press("n");
  await terminal.shows("c cancel");
  expect((await jobsOnly.client.get_job({ job_id: job?.id ?? "" })).job.status).toBe("running");
  await terminal.press("c", "y");
  await terminal.shows("cancelled", "ended");
  await terminal.press("Escape");
  await terminal.shows("ACTION");
  await terminal.press("a");
  await terminal.shows("cancelled  ");
});

test.concurrent("an agent answers a message, and talks live to who has its package", async () => {
  const hub = join(tmux.directory, "hub");
  await mkdir(join(hub, "agents", "default", "package"), { recursive: true });
  await writeFile(join(hub, "agents", "default", "agent.yml"), "description: Helps\n");
  const terminal = await tmux.open({ env: { SERVICE_REMOTES: agent.url, HUB_DIR: hub }, columns: 100 });
  await terminal.shows("1 instance", "1 local package");
  await terminal.press("1");
  await terminal.shows("Remote Chat", "Live Chat");
  await terminal.press("1");
  await terminal.shows("the agent remembers");
  await terminal.type('scenario: chat {"steps": [{"text": "Good morning."}]}');
  await terminal.press("Enter");
  await terminal.shows("Good morning.", "1-1 of 1");
  await terminal.press("Escape");
  await terminal.shows("Live Chat");
  await terminal.press("2");
  await terminal.shows("Talking with default");
  await terminal.type('scenario: chat {"steps": [{"text": "Good evening."}]}');
  await terminal.press("Enter");
  await terminal.shows("Good evening.\n");
  await terminal.press("C-d");
  await terminal.shows("Live Chat", "Esc back");
  await terminal.press("q");
  await terminal.shows("1 instance");
});
