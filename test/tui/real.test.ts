import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { startService, type Service } from "../service.ts";
import { startTmux, type Tmux } from "./terminal.ts";

let jobsOnly: Service;
let asking: Service;
let agent: Service;
let tmux: Tmux;
beforeAll(async () => {
  [jobsOnly, asking, agent, tmux] = await Promise.all([
    startService(),
    startService(),
    startService({ env: { AGENT_MODE: "true" } }),
    startTmux(),
  ]);
});

test.concurrent("a job is submitted and followed, and goes on when the user leaves it", async () => {
  const terminal = await tmux.open({ env: { SERVICE_REMOTES: jobsOnly.url }, columns: 100, rows: 40 });
  await terminal.shows("1 instance", "orchestrator");
  await terminal.press("1");
  await terminal.shows("Submit job");
  await terminal.press("1");
  await terminal.shows("in plain words", ">");
  await terminal.type('Count. scenario: hang {"after": 5}');
  await terminal.press("Enter");
  await terminal.shows("Repository");
  await terminal.press("Enter");
  await terminal.shows("agent at work");
  await terminal.press("C-c");
  await terminal.shows("the job continues", "ACTION", "running");
  const { jobs } = await jobsOnly.client.list_jobs({});
  expect(jobs).toMatchObject([
    { task: 'Count. scenario: hang {"after": 5}', status: "running", repo_url: "" },
  ]);
  // Before its row is there, the number chooses nothing.
  await terminal.shows(`4  ${jobs[0]?.id.slice(0, 8)}  running`);
  await terminal.press("4");
  await terminal.shows(`Job ${jobs[0]?.id.slice(0, 8)}`);
  await jobsOnly.client.cancel_job({ job_id: jobs[0]?.id ?? "" });
  await terminal.shows("cancelled", "Esc back");
  await terminal.press("3");
  await terminal.shows("New jobs are accepted");
});

test.concurrent("a job that asks is waiting in the list, and is answered by who follows it", async () => {
  const terminal = await tmux.open({ env: { SERVICE_REMOTES: asking.url }, columns: 100, rows: 40 });
  const { job } = await asking.client.run_task({ task: "Choose. scenario: ask" });
  await terminal.shows("1 instance", "orchestrator");
  await terminal.press("1");
  await terminal.shows(`${job.id.slice(0, 8)}  waiting`, "\n      Which database?");
  await terminal.press("4");
  await terminal.shows("Which database?", "1  Postgres", "A number, or own words");
  await terminal.type("1");
  await terminal.press("Enter");
  await terminal.shows("succeeded", "Esc back");
  const { diff } = await asking.client.get_diff({ job_id: job.id });
  expect(diff).toContain('"Which database?"="Postgres"');
});

test.concurrent("an agent answers a message, and talks live to who has its package", async () => {
  const hub = join(tmux.directory, "hub");
  await mkdir(join(hub, "agents", "default", "package"), { recursive: true });
  await writeFile(join(hub, "agents", "default", "agent.yml"), "description: Helps\n");
  const terminal = await tmux.open({
    env: { SERVICE_REMOTES: agent.url, HUB_DIR: hub },
    columns: 100,
    rows: 40,
  });
  await terminal.shows("1 instance", "1 local package");
  await terminal.press("1");
  await terminal.shows("Remote Chat", "Live Chat");
  await terminal.press("1");
  await terminal.shows("the agent remembers", ">");
  await terminal.type('scenario: chat {"steps": [{"text": "Good morning."}]}');
  await terminal.press("Enter");
  await terminal.shows("\nGood morning.\n", "Esc back", "Live Chat");
  await terminal.press("2");
  await terminal.shows("Talking with default");
  await terminal.type('scenario: chat {"steps": [{"text": "Good evening."}]}');
  await terminal.press("Enter");
  await terminal.shows("\nGood evening.\n");
  await terminal.press("C-d");
  await terminal.shows("Live Chat", "Esc back");
  await terminal.press("Escape");
  await terminal.shows("1 instance");
});
