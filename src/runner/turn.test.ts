import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { peakOf } from "../../test/peak-memory.ts";
import { processesMarked } from "../../test/processes.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { plainGit } from "../repos/plain-git.fixture.ts";
import { noOptions } from "../contract/run-options.ts";
import { until } from "../../test/until.ts";
import { fakeAgent } from "../../test/service-process.ts";
import { claimJob } from "./runner.fixture.ts";

/** What has nothing to do with a repository is cheaper without one. */
const scratch = { repo_url: "" };

test("an event that cannot be passed on ends the agent before it ends the job", async () => {
  const job = await claimJob("scenario: sleep", scratch);
  const outcome = await job.execute({
    event: (event) => {
      if (event.type === "text") throw new RangeError("too deep");
    },
  });
  expect(processesMarked(job.record.id)).toEqual([]);
  const error = expect.stringContaining("could not be passed on, so it was stopped: too deep.") as string;
  expect(outcome).toMatchObject({ kind: "failed", patch: { failure_reason: "internal", error } });
});

test("the input of a tool call is cut where it is nested too deeply", async () => {
  const deep = `${'{"in":'.repeat(3000)}1${"}".repeat(3000)}`;
  const steps = `[{"tool": {"name": "Bash", "input": {"near": [1], "deep": ${deep}}}}, {"text": "Done."}]`;
  const job = await claimJob(`scenario: chat {"steps": ${steps}}`, scratch);
  expect(await job.execute()).toMatchObject({ kind: "succeeded", patch: { output: "Done." } });
  const call = (await job.published()).find(({ type }) => type === "tool_use");
  expect(call).toMatchObject({ input: { near: [1] } });
  expect(JSON.stringify(call)).toContain('{"in":"[… cut: nested more than 100 levels deep …]"}');
});

test("what the agent's adapter warns of is in the job's warnings, each sentence once", async () => {
  const job = await claimJob('scenario: huge-line {"megabytes": 20, "times": 2}', scratch);
  await job.execute();
  const leftOut = expect.stringMatching(
    /^The agent wrote a line of \d+ bytes, which was left out\.$/,
  ) as string;
  const told = (await job.published()).filter(({ type }) => type === "warning");
  expect(told).toHaveLength(2);
  expect((await job.stored()).warnings).toEqual([leftOut]);
});

/** How the stage `result` was passed. */
const results = async ({ published }: Awaited<ReturnType<typeof claimJob>>): Promise<unknown[]> =>
  (await published()).flatMap((event) =>
    event.type === "stage" && event.stage === "result" ? [event.detail] : [],
  );

test("of a long answer the job keeps the end, within the limit of its output; tokens and cost of all attempts count", async () => {
  const usage = {
    input_tokens: 1000,
    output_tokens: 0,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
  // The earlier attempt had no result.
  const earlier = { ...scratch, attempt: 2, usage, cost_usd: 0.5, cost_estimated: true };
  const job = await claimJob('scenario: noop {"kilobytes": 200}', earlier);
  const { kind, patch } = await job.execute();
  expect({ kind, patch }).toMatchObject({
    kind: "succeeded",
    patch: { cost_usd: 0.5123, cost_estimated: true, usage: { input_tokens: 1100, output_tokens: 20 } },
  });
  const output = patch.output ?? "";
  expect(Buffer.byteLength(output)).toBeLessThanOrEqual(51_200);
  expect(Buffer.byteLength(output)).toBeGreaterThan(51_190);
  expect(output).toMatch(/^\[… cut …\]\nä+ the end$/);
  expect(await results(job)).toEqual(["success"]);
});

test("a run that works on after its result passes the stage `result` once, with error", async () => {
  const job = await claimJob("scenario: work-after-result", scratch);
  await job.execute();
  expect(await results(job)).toEqual(["error"]);
});

test("a run whose cost nobody knows is warned of, with what to do", async () => {
  const job = await claimJob('scenario: hang {"after": 1}', scratch);
  const outcome = job.execute();
  await until(async () => (await job.stored()).stages.some(({ stage }) => stage === "first_output"));
  job.interrupt("shutdown");
  expect(await outcome).toMatchObject({ patch: { cost_usd: null, usage: { output_tokens: 20 } } });
  expect((await job.stored()).warnings).toEqual([
    expect.stringMatching(
      /^What this run cost is not known: .* fake-sonnet; set max_budget_usd in its profile$/,
    ),
  ]);
});

test("a job whose agent cannot be started says why, and its events end like those of any other", async () => {
  const job = await claimJob("scenario: noop", scratch, { agentCliBinary: "no-such-agent" });
  expect(await job.execute()).toMatchObject({
    kind: "failed",
    patch: { failure_reason: "cli_not_found", error: expect.stringContaining("no-such-agent") as string },
  });
  expect((await job.published()).at(-1)).toMatchObject({ type: "exited", exit_code: null, signal: null });
});

test("a plan that cannot be approved, because the CLI is too old, keeps the agent from its work", async () => {
  const old = join(await temporaryDirectory(), "old-agent");
  await writeFile(old, "#!/bin/sh\necho 2.1.100\n", { mode: 0o755 });
  const patch = { ...scratch, options: { ...noOptions, plan: true } };
  const job = await claimJob("scenario: work", patch, { agentCliBinary: old });
  expect(await job.execute()).toMatchObject({
    kind: "failed",
    patch: { failure_reason: "cli_not_found", error: expect.stringContaining("no plan approved") as string },
  });
});

test.each(["text", "tool"])("a flood of %s is on record within bounds, in a small memory", async (shape) => {
  const job = await claimJob(`scenario: flood {"megabytes": 100, "shape": "${shape}"}`, scratch);
  const { value: outcome, grown } = await peakOf(job.execute());
  expect(outcome).toMatchObject({ kind: "succeeded" });
  const told = await job.published();
  expect(told.filter(({ type }) => type === "warning")).toContainEqual(
    expect.objectContaining({
      message: expect.stringMatching(/: from here on .* may be left out$/) as string,
    }),
  );
  expect(told.slice(-2).map(({ type }) => type)).toEqual(["stage", "exited"]);
  expect(grown).toBeLessThan(200);
});

test("what the remote has of the branch begins the prompt; what others have committed there is told before the agent is started", async () => {
  const log = join(await temporaryDirectory(), "log");
  const job = await claimJob(`scenario: work {"log": "${log}"}`);
  await job.execute();
  const { commit_sha: first } = await job.stored();
  await job.execute();
  const { worktree_path, branch } = await job.stored();
  const { work, url, commit } = job.remote;
  await plainGit(work, "fetch", "--quiet", url, String(branch));
  await plainGit(work, "checkout", "--quiet", "-B", "theirs", "FETCH_HEAD");
  const theirs = await commit({ "theirs.txt": "1\n" }, { branch: String(branch) });
  await writeFile(join(String(worktree_path), "dirt.txt"), "1\n");
  const before = (await job.published()).length;
  await job.execute();
  const told = (await job.stored()).warnings.find((warning) => warning.includes(theirs)) ?? "";
  expect(told).toContain(`The branch ${branch} has commits at the remote`);
  // The log has the beginning of each prompt.
  const lines = (await readFile(log, "utf8")).trim().split("\n");
  const [, second, prompt = ""] = lines.map((line) => (JSON.parse(line) as { prompt: string }).prompt);
  expect(second).toMatch(`The remote has the branch ${branch} up to ${first}. You may rewrite`);
  expect(prompt).toContain(theirs);
  expect(`${told}\n\n${job.record.task}`.slice(0, prompt.length)).toBe(prompt);
  const again = (await job.published()).slice(before);
  const at = (wanted: (event: (typeof again)[number]) => boolean): number => again.findIndex(wanted);
  const warned = at((event) => event.type === "warning" && event.message === told);
  const started = at((event) => event.type === "stage" && event.stage === "agent_started");
  expect([warned >= 0, warned < started]).toEqual([true, true]);
});

test("a session of another job is none of this one's, whatever the agent's output says; a new one is", async () => {
  const ids = ["11111111-2222-4333-8444-555555555555", "66666666-2222-4333-8444-555555555555"] as const;
  const [taken, fresh] = ids;
  const runSaying = async (id: string) => {
    const script = join(await temporaryDirectory(), "agent");
    const renamed = `sed -u 's/"session_id":"[^"]*"/"session_id":"${id}"/g'`;
    await writeFile(script, `#!/bin/sh\n"${fakeAgent}" "$@" | ${renamed}\n`, { mode: 0o755 });
    const isTaken = async (sessionId: string): Promise<boolean> => sessionId === taken;
    const job = await claimJob("scenario: noop", scratch, { agentCliBinary: script, isTaken });
    const { patch } = await job.execute();
    expect(patch.session_cwd).toBe((await job.stored()).worktree_path);
    return { patch, stored: await job.stored() };
  };
  const foreign = await runSaying(taken);
  expect(foreign.patch.session_id).toBe(foreign.stored.session_id);
  expect(foreign.patch.session_id).not.toBe(taken);
  expect(foreign.stored.warnings.join()).toContain("in a session of another job; this job keeps its own");
  expect((await runSaying(fresh)).patch.session_id).toBe(fresh);
});
