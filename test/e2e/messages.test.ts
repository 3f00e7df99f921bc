import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JobEvent } from "../../src/contract/event.ts";
import type { Job, Message } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { svc } from "../cli/run-svc.ts";
import { createCluster } from "../cluster.ts";
import { agentJournal } from "../fake-agent/journal.ts";
import { mcpDoors } from "../mcp-doors.ts";
import { startRedis } from "../redis.ts";
import { makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/* Words to an agent that works, by every way in. */

const submit = async (service: Service, task: string, profile = ""): Promise<Job> => {
  const { path: repo_url } = await makeRemote();
  return asks(service).submit({ task, repo_url, profile });
};

const heardBy = (service: Service, id: string, texts: readonly string[]): Promise<Job> =>
  asks(service).when(
    id,
    ({ messages }) =>
      texts.every((text) => messages.some((one) => one.text === text && one.status === "taken")),
    `to hear ${texts.join(", ")}`,
  );

const send = async (service: Service, path: string, body: unknown, method = "POST", key?: string) => {
  const response = await fetch(`${service.url}/jobs/${path}`, {
    method,
    headers: { "content-type": "application/json", ...(key !== undefined && { "idempotency-key": key }) },
    ...(method === "POST" && { body: JSON.stringify(body) }),
  });
  return {
    status: response.status,
    body: (await response.json()) as { code?: string; error?: string; message?: Message },
  };
};

const eventsOf = async (service: Service, id: string): Promise<JobEvent[]> => {
  const events: JobEvent[] = [];
  const stream = service.client.events(id, {});
  for (let next = await stream.next(); next.done !== true; next = await stream.next())
    events.push(next.value);
  return events;
};

test("what is said over REST, MCP and in the shell is heard in order, told in the stream, and continues a job that has ended", async () => {
  const service = await startService();
  const { hostname, port } = new URL(service.url);
  const shell = { env: { ...service.env, SERVICE_HOST: hostname, SERVICE_PORT: port }, cwd: service.home };
  const { id } = await submit(service, 'scenario: listen {"messages": 4}');
  const path = `${id}/messages`;
  await asks(service).speaking(id);

  const hostile = "/clear\u0000\u001b[2J ```\n# not a heading";
  const told = hostile.replace("\u0000", "\ufffd");
  const over = await send(service, path, { text: hostile }, "POST", "once");
  expect(over.status).toBe(200);
  expect(over.body.message).toMatchObject({ text: told, when: "next", status: "queued" });
  expect((await send(service, path, { text: hostile }, "POST", "once")).body.message?.id).toBe(
    over.body.message?.id,
  );
  expect((await send(service, path, { text: "other" }, "POST", "once")).body.code).toBe(
    "idempotency_conflict",
  );
  await heardBy(service, id, [told]);
  const mcp = mcpDoors[0]!;
  await mcp.ask(service, { operation: "message_job", input: { job_id: id, text: "By MCP" } });
  await heardBy(service, id, ["By MCP"]);

  const said = await svc(["say", id, "-", "--later", "--json"], { ...shell, input: "Never mind\n" });
  const { message: later } = JSON.parse(said.stdout) as { message: Message };
  const back = await svc(["say", id, "--take-back", later.id.slice(0, 8)], shell);
  expect(back).toMatchObject({ code: 0, stdout: `Message ${later.id.slice(0, 8)} is taken back\n` });

  const bad = [{ text: " " }, { text: "a".repeat(32_769) }, { text: "a", when: "soon" }, {}];
  expect(await Promise.all(bad.map(async (body) => (await send(service, path, body)).status))).toEqual([
    400, 400, 400, 400,
  ]);
  const nobody = "00000000-0000-4000-8000-000000000000";
  const answers = [
    await send(service, `${nobody}/messages`, { text: "a" }),
    await send(service, `${path}/${nobody}`, null, "DELETE"),
    await send(service, `${path}/${over.body.message!.id}`, null, "DELETE"),
  ];
  expect(answers.map(({ status, body }) => [status, body.code])).toEqual([
    [404, "job_not_found"],
    [404, "message_not_found"],
    [409, "message_taken"],
  ]);

  expect((await svc(["say", id, "In the shell"], shell)).stdout).toMatch(
    /^Message [0-9a-f]{8}: the agent hears it between two steps of its work\n$/,
  );
  await send(service, path, { text: "At last" });
  const job = await asks(service).ended(id);
  expect(job).toMatchObject({ status: "succeeded" });
  expect(job.warnings.join()).not.toContain("had heard");
  const all = [told, "By MCP", "In the shell", "At last"];
  // With what keeps a slash from being a command.
  expect(job.output).toBe(`Heard: \u200b${all.join(", ")}`);
  const events = (await eventsOf(service, id)).flatMap((event) =>
    event.type === "message" ? [[event.text, event.status]] : [],
  );
  expect(events).toEqual(all.map((text) => [text, "taken"]));
  const page = (await svc(["job", id], shell)).stdout;
  expect(page).toMatch(/Said +[0-9a-f]{8} {2}taken {2}\/clear/);
  expect(page).not.toContain("\u001b[2J");

  const more = await svc(["say", id, "Go on\nscenario: remember", "--now"], shell);
  const [, next = ""] = /^The job had ended: job (\S+) continues it\n$/.exec(more.stdout) ?? [];
  const continued = await asks(service).ended(next);
  expect(continued).toMatchObject({ session_id: job.session_id, branch: job.branch, status: "succeeded" });
});

test("now cuts in, a word to a parked job waits for its answer, and a cancelled job says what was not heard", async () => {
  const service = await startService({ env: { SERVICE_QUESTION_LIVE: "1" } });
  const { client } = service;
  const [cut, parked, queued] = [
    await submit(service, "scenario: sleep"),
    await submit(service, 'scenario: ask {"then": "listen"}'),
    await submit(service, "scenario: sleep"),
  ];
  await asks(service).speaking(cut.id);
  await client.message_job({
    job_id: cut.id,
    when: "now",
    text: 'Stop\nscenario: chat {"steps": [{"text": "Stopped."}]}',
  });
  expect(await asks(service).ended(cut.id)).toMatchObject({ output: "Stopped.", outcome: "no_change" });

  await asks(service).when(parked.id, ({ pid, waiting }) => pid === null && waiting !== null, "to be parked");
  await client.message_job({ job_id: parked.id, when: "now", text: "Be quick" });
  const { job: still } = await client.get_job({ job_id: parked.id });
  expect(still).toMatchObject({ pid: null, messages: [{ status: "queued" }], waiting: { kind: "question" } });
  await client.answer_job({ job_id: parked.id, text: "SQLite" });
  expect(await asks(service).ended(parked.id)).toMatchObject({ output: "Heard: Be quick" });

  await asks(service).speaking(queued.id);
  await client.message_job({ job_id: queued.id, when: "later", text: "When you are done" });
  await client.cancel_job({ job_id: queued.id });
  const cancelled = await asks(service).ended(queued.id);
  expect(cancelled.warnings.join("\n")).toContain('ended before its agent had heard "When you are done"');
});

test("after a kill of the service what was heard is not said again, and what was not is said once", async () => {
  const home = await temporaryDirectory();
  const profiles = join(home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "stubborn.yml"), "extends: code\nretry_lost: true\n");
  const journal = await agentJournal(home);
  const go = join(journal.controls, "go");
  const first = await startService({ home, env: journal.env });
  const job = await submit(
    first,
    `scenario: listen ${JSON.stringify({ messages: 0, until: go })}`,
    "stubborn",
  );
  await asks(first).speaking(job.id);
  await first.client.message_job({ job_id: job.id, text: "One" });
  await heardBy(first, job.id, ["One"]);
  await first.client.message_job({ job_id: job.id, when: "later", text: "Later\nscenario: noop" });
  await first.kill();

  const second = await startService({ home, env: journal.env });
  await asks(second).when(job.id, ({ attempt, pid }) => attempt === 2 && pid !== null, "to run again");
  await second.client.message_job({ job_id: job.id, text: "Two" });
  await heardBy(second, job.id, ["Two"]);
  await writeFile(go, "");
  const done = await asks(second).ended(job.id);
  expect(done).toMatchObject({ status: "succeeded", output: "Nothing to do." });
  expect(done.messages.map(({ status }) => status)).toEqual(["taken", "taken", "taken"]);
  expect(await readFile(join(String(done.worktree_path), "heard.txt"), "utf8")).toBe("One\nTwo\n");
  const prompts = (await readFile(journal.path, "utf8")).split("\n").filter((line) => line.includes("Later"));
  expect(prompts).toHaveLength(1);
  const told = (await eventsOf(second, job.id)).flatMap((event) =>
    event.type === "message" ? [event.text] : [],
  );
  expect(told).toEqual(["One", "Two", "Later\nscenario: noop"]);
});

test("a word is said and taken back on any instance, whichever runs the job", async () => {
  const cluster = await createCluster({ kvUrl: (await startRedis()).url });
  const services = await Promise.all([cluster.start("svc-0"), cluster.start("svc-1")]);
  const job = await submit(services[0], 'scenario: listen {"messages": 2}');
  const { pod_name: runner } = await asks(services[0]).speaking(job.id);
  const { client: elsewhere } = services[runner === "svc-0" ? 1 : 0];
  const { message } = await elsewhere.message_job({ job_id: job.id, when: "later", text: "Never" });
  const back = await elsewhere.take_back_message({ job_id: job.id, message_id: message!.id });
  expect(back.message.status).toBe("withdrawn");
  for (const [at, { client }] of services.entries()) {
    await client.message_job({ job_id: job.id, text: `From ${at}` });
    await heardBy(services[0], job.id, [`From ${at}`]);
  }
  expect(await asks(services[1]).ended(job.id)).toMatchObject({ output: "Heard: From 0, From 1" });
});
