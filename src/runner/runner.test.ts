import { readdir, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { fakeAgent } from "../../test/service-process.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { Answer } from "../contract/answer.ts";
import { RunTaskInput } from "../contract/job.ts";
import { jobOptions } from "../contract/run-options.ts";
import type { JobRecord } from "../store/job-record.ts";
import { claimJob } from "./runner.fixture.ts";

test("where the job works is on record when its agent is, though earlier progress was lost; why no pull request was opened is a warning", async () => {
  const job = await claimJob("scenario: work");
  const { kind, patch } = await job.execute({ note: () => undefined });
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  const warning = await until(async () => (await job.stored()).warnings.at(-1));
  expect(warning).toMatch(/^The branch service\/\w+ was pushed, but no pull request was opened: /);
  expect(await job.stored()).toMatchObject({
    process: expect.anything(),
    worktree_id: job.record.id,
    worktree_path: expect.stringContaining(job.record.id) as string,
    branch: `service/${job.record.id.slice(0, 8)}`,
  });
});

test("a job whose agent leaves a file of 300 GB that holds nothing ends within a minute, with a warning that names it", async () => {
  const job = await claimJob("scenario: work");
  const { kind } = await job.execute({
    record: async (patch) => {
      const file = join(String(patch.worktree_path), "large.bin");
      if (patch.worktree_path) await writeFile(file, "");
      if (patch.worktree_path) await truncate(file, 300e9);
      return await job.run.record(patch);
    },
  });
  expect(kind).toBe("succeeded");
  const { warnings } = await job.stored();
  expect(warnings.join()).toContain("1 GiB of new files: large.bin");
}, 60_000);

test("a job that is stopped before its agent got the prompt waits again", async () => {
  const job = await claimJob("scenario: work");
  const outcome = await job.execute({
    record: async (patch) => {
      job.interrupt("shutdown");
      return await job.run.record(patch);
    },
  });
  expect(outcome).toMatchObject({ kind: "requeue", patch: { pid: null, process: null } });
});

test("the work of a lost job that is not tried again is saved, though its profile asks for another try", async () => {
  const job = await claimJob("scenario: noop", { attempt: 5, retry_lost: true });
  await job.execute();
  const record = await job.stored();
  await writeFile(join(String(record.worktree_path), "left.txt"), "unfinished\n");
  expect(await job.settleLost(record)).toMatchObject({
    requeue: false,
    patch: { salvage_ref: `refs/service/salvage/${record.id}` },
  });
});

test("an agent that is started again in its run finds nothing that the one before left in its configuration", async () => {
  const directory = await temporaryDirectory();
  const [agentCliBinary, seen] = [join(directory, "agent"), join(directory, "seen")];
  const script = `#!/bin/sh
    [ "$1" != --version ] || exec "${fakeAgent}" "$@"
    cd "$CLAUDE_CONFIG_DIR"
    [ -L projects ] && is=linked || is=replaced
    echo "$is $(ls planted 2>/dev/null)" >> ${seen}
    [ $(wc -l < ${seen}) != 2 ] || { rm projects; mkdir projects; : > planted; }
    cd "$OLDPWD"
    exec "${fakeAgent}" "$@"
`;
  await writeFile(agentCliBinary, script, { mode: 0o755 });
  const overloads = { overloadRetries: 3, overloadPauses: [0] };
  const task = 'scenario: api-error {"status": 529, "times": 2}';
  const job = await claimJob(task, {}, { agentCliBinary, ...overloads });
  await job.execute();
  expect(await readFile(seen, "utf8")).toMatch(/^(linked \n){3,4}$/);
});

/** A job that is parked with its question, and what its session's transcript says. */
const parkedWith = async (task: string, ...[patch, settings]: [Partial<JobRecord>?, object?]) => {
  const job = await claimJob(task, patch, settings, true);
  expect(await job.execute()).toMatchObject({ kind: "parked" });
  const record = await job.stored();
  const projects = join(job.home, ".service", "projects");
  const names = await readdir(projects, { recursive: true });
  const transcript = join(projects, names.find((name) => name.endsWith(".jsonl")) ?? "");
  return {
    ...job,
    read: () => readFile(transcript, "utf8"),
    /** The agent was killed while it asked. */
    loseQuestion: async (): Promise<void> => {
      const lines = (await readFile(transcript, "utf8")).split("\n");
      await writeFile(transcript, lines.filter((line) => !line.includes("hook_deferred_tool")).join("\n"));
    },
    /** As a start of the service does that finds the answer, and this record. */
    resume: (answer: Answer) =>
      job.execute(
        {},
        {
          ...record,
          asked: record.asked && { ...record.asked, answer },
          resumed_at: new Date().toISOString(),
        },
      ),
  };
};

/** How often the session has the answer as the call's result, and as words of the user. */
const heardIn = async ({
  read,
}: {
  read: () => Promise<string>;
}): Promise<[asResult: number, asWords: number]> => {
  const lines = (await read()).split("\n").filter((line) => line.includes('"type":"user"'));
  const times = (part: string): number => lines.filter((line) => line.includes(part)).length;
  return [times('"tool_result"'), times("You have asked the user")];
};

test("an answer is heard once, wherever the service was killed before it noted that", async () => {
  const answer = { kind: "answers" as const, answers: { "Which database?": "SQLite" } };
  const asksAgain = await parkedWith("scenario: ask {}");
  await asksAgain.resume(answer);
  const lost = await parkedWith("scenario: ask {}");
  await lost.loseQuestion();
  await lost.resume(answer);
  expect([await heardIn(asksAgain), await heardIn(lost)]).toEqual([
    [1, 0],
    [0, 1],
  ]);
  // As if nothing of that had been noted.
  for (const job of [asksAgain, lost]) await job.resume(answer);
  expect([await heardIn(asksAgain), await heardIn(lost)]).toEqual([
    [1, 0],
    [0, 1],
  ]);
});

test.each([
  ["approved", { kind: "approve", feedback: "", plan: null } as const, false],
  ["sent back", { kind: "send_back", feedback: "Use JSON." } as const, true],
])(
  "an agent that has lost its plan, which was %s, is told so in the right mode",
  async (_what, answer, plans) => {
    const directory = await temporaryDirectory();
    const [agentCliBinary, modes] = [join(directory, "agent"), join(directory, "modes")];
    const script = `#!/bin/sh
    case "$*" in --version) ;; *"permission-mode plan"*) echo plan >> ${modes} ;; *) echo work >> ${modes} ;; esac
    exec "${fakeAgent}" "$@"
`;
    await writeFile(agentCliBinary, script, { mode: 0o755 });
    const { options } = RunTaskInput.parse({ task: "plan", options: { plan: true } });
    const planned = { options: jobOptions(options) };
    const job = await parkedWith("scenario: plan {}", planned, { agentCliBinary });
    await job.loseQuestion();
    await job.store.update(job.record.id, { status: ["running"] }, { salvage_ref: "refs/service/salvage/x" });
    await job.resume(answer);
    // Its agent goes on with the work.
    expect((await job.stored()).salvage_ref).toBeNull();
    const started = (await readFile(modes, "utf8")).trim().split("\n");
    expect(started).toEqual(["plan", plans ? "plan" : "work"]);
    expect((await job.stored()).plan_approved).toBe(!plans);
  },
);
