import { existsSync } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ServiceError } from "../contract/errors.ts";
import { noOptions } from "../contract/run-options.ts";
import { plainGit } from "../repos/plain-git.fixture.ts";
import { until } from "../../test/until.ts";
import { reservePorts } from "../place/ports.ts";
import { claimJob } from "./runner.fixture.ts";

type Over = Parameters<typeof claimJob>[4];

/** A claimed job whose repository has this `.svc/setup.yml`, and whose profile these keys. */
const claimWith = async (
  file: object | string | null,
  { profile = {}, patch = {}, over = {}, settings = {} }: Given = {},
) => {
  const job = await claimJob(
    "scenario: work",
    { profile: "ours", ...patch },
    { agentCliBinary, ...settings },
    false,
    over,
  );
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "ours.yml"), JSON.stringify({ extends: "code", ...profile }));
  const text = typeof file === "string" ? file : JSON.stringify(file);
  if (file !== null) await job.remote.commit({ ".svc/setup.yml": text, ".gitignore": "*.ignored" });
  return job;
};

type Given = { profile?: object; patch?: object; over?: Over; settings?: Parameters<typeof claimJob>[2] };

/** Writes its environment to $DUMP_TO. */
const agentCliBinary = join(import.meta.dirname, "../../test/e2e/environment-agent");

const stagesOf = async ({ stored }: Awaited<ReturnType<typeof claimJob>>) =>
  (await stored()).stages.map(({ stage }) => stage);

const textOf = async ({ published }: Awaited<ReturnType<typeof claimJob>>) =>
  (await published()).map((event) => (event.type === "setup" ? event.text : "")).join("");

describe("the setup of a job's worktree", () => {
  test("is run before its agent, in the worktree; its env holds for the agent and checks, too", async () => {
    const file = {
      run: ["echo $GREETING > made.ignored; pwd"],
      each: ["cat made.ignored"],
      env: { GREETING: "hello world", DUMP_TO: "env.ignored" },
      versions: { git: 2 },
    };
    const checks = [{ name: "env", run: 'test "$GREETING" = "hello world"' }];
    const job = await claimWith(file, { profile: { checks } });
    const { kind, patch } = await job.execute();
    expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
    expect(patch.checks).toMatchObject([{ status: "passed" }]);
    const record = await job.stored();
    const path = String(record.worktree_path);
    expect(record.setup).toEqual({
      cache: "none",
      seconds: expect.any(Number) as number,
      exit_code: 0,
      waited_seconds: 0,
    });
    const stages = await stagesOf(job);
    expect(stages.slice(stages.indexOf("worktree_ready"))).toMatchObject([
      "worktree_ready",
      "setup",
      "agent_started",
      ...stages.slice(stages.indexOf("agent_started") + 1),
    ]);
    expect(await textOf(job)).toBe(`$ ${file.run[0]}\n${path}\n$ cat made.ignored\nhello world\n`);
    expect(await readFile(join(path, "env.ignored"), "utf8")).toMatch(/^GREETING=hello world$/m);
    expect(await readFile(join(path, "made.ignored"), "utf8")).toBe("hello world\n");
  });

  test("has the job's ten ports, as its agent and checks have, which are others' when it has ended", async () => {
    // Of this process alone: tests of another checkout may run beside it.
    const first = 16_000 + (process.pid % 100) * 20;
    const over = { portRange: `${first}-${first + 19}` };
    const told = 'echo "$PORT $PORT_COUNT"';
    const job = await claimWith(
      { run: [told], env: { DUMP_TO: "env.ignored" } },
      { profile: { checks: [{ name: "ports", run: `${told}; exit 1` }], check_rounds: 0 }, settings: over },
    );
    const said = `${first + 10} 10\n`;
    const taken = await reservePorts(over.portRange);
    const { patch } = await job.execute();
    expect(await textOf(job)).toBe(`$ ${told}\n${said}`);
    expect(patch.checks).toMatchObject([{ log: said, before: { log: said } }]);
    const env = await readFile(join(String((await job.stored()).worktree_path), "env.ignored"), "utf8");
    expect(`\n${env}`).toContain(`\nPORT=${first + 10}\n`);
    await using freed = await reservePorts(over.portRange);
    expect(freed?.env.PORT).toBe(`${first + 10}`);
    const without = await claimWith(null, { settings: over });
    expect((await without.execute()).kind).toBe("succeeded");
    expect((await without.stored()).warnings.join()).toContain(`SERVICE_PORT_RANGE (${over.portRange})`);
    await taken?.[Symbol.asyncDispose]();
  });

  test("is none where nobody says one, nor where the agent may only read", async () => {
    const without = await claimWith(null);
    expect((await without.execute()).kind).toBe("succeeded");
    expect(await without.stored()).toMatchObject({ setup: null });
    expect(await stagesOf(without)).not.toContain("setup");
    const reads = await claimWith({ run: ["exit 1"], env: { A: "b" } }, { profile: { extends: "review" } });
    expect((await reads.execute()).kind).toBe("succeeded");
    expect(await reads.stored()).toMatchObject({ setup: null });
  });

  test.each([
    [
      "a command fails",
      { run: ["echo so; exit 3", "echo never"] },
      /exit code 3\.\nWhat to do: .*\n\$ echo so; exit 3\nso$/,
      true,
      3,
    ],
    [
      "the time limit is reached",
      { run: ["sleep 1000 & wait"], timeout: 0.5 },
      "time limit, 0.5 s",
      true,
      null,
    ],
    [
      "a service ends",
      { services: [{ name: "db", command: "echo no data; exit 3", ready: "false" }] },
      /exit code 97\.\nWhat to do: .*\nThe service db ended with exit code 3:\nno data$/,
      true,
      97,
    ],
    ["a program is missing", { versions: { git: 1000 } }, /not there: git 1000 \(.* is there\)/, false, null],
    [
      "there is no room",
      { run: ["echo No space left on device; exit 1"], on_failure: "continue" },
      "no room",
      true,
      1,
    ],
  ])("fails the job before its agent is paid for: %s", async (_what, file, said, retryable, exit_code) => {
    const job = await claimWith(file);
    const { kind, patch } = await job.execute();
    expect({ kind, ...patch }).toMatchObject({
      kind: "failed",
      failure_reason: "setup_failed",
      retryable,
      error: expect.stringMatching(said) as string,
    });
    expect(patch.salvage_ref).toBeUndefined();
    expect(await job.stored()).toMatchObject({ session_id: null, setup: { exit_code } });
  });

  test("fails the job when it has filled the disk, although its commands ended well", async () => {
    const full = new ServiceError("disk_full", "The disk of /srv is full");
    const job = await claimWith({ run: ["true"] }, { over: { requireRoom: () => Promise.reject(full) } });
    expect((await job.execute()).patch).toMatchObject({
      failure_reason: "setup_failed",
      retryable: true,
      error: expect.stringContaining("The disk of /srv is full") as string,
    });
  });

  test.each([
    ["its commands say so", { run: ["echo made > big.bin; echo No space left on device; exit 1"] }, {}],
    [
      "only the disk says so",
      { run: ["echo made > big.bin; echo it failed; exit 1"] },
      { requireRoom: () => Promise.reject(new ServiceError("disk_full", "The disk of /srv is full")) },
    ],
  ])(
    "that has filled the disk leaves no worktree, and its output is in the error: %s",
    async (_how, file, over) => {
      const job = await claimWith(file, { over });
      const { patch } = await job.execute();
      expect(patch).toMatchObject({
        failure_reason: "setup_failed",
        error: expect.stringMatching(/No space left on device$|it failed$/) as string,
      });
      const { worktree_path: path } = await job.stored();
      expect(path).not.toBeNull();
      expect(existsSync(String(path))).toBe(false);
    },
  );

  test("fails the job when its file is broken", async () => {
    const job = await claimWith("run: [npm ci]\nkeep: warm");
    expect((await job.execute()).patch).toMatchObject({
      failure_reason: "setup_failed",
      retryable: false,
      error: ".svc/setup.yml: unknown key keep",
    });
    expect(await stagesOf(job)).not.toContain("agent_started");
  });

  test("that fails and says on_failure: continue is a warning", async () => {
    const job = await claimWith({ run: ["exit 3"], on_failure: "continue" });
    expect((await job.execute()).kind).toBe("succeeded");
    const { warnings, setup } = await job.stored();
    expect(warnings.join()).toContain("The setup failed: exit code 3; the agent was started all the same");
    expect(setup).toMatchObject({ exit_code: 3 });
  });

  test("is that of the profile, key by key, before that of the file; hosts that no one allows are left out", async () => {
    const file = { run: ["exit 1"], each: ["echo theirs"], hosts: ["npm", "other.example"] };
    const profile = { setup: [{ repo: ["nobody/*"], run: ["exit 2"] }, { run: ["echo ours"] }] };
    const job = await claimWith(file, { profile });
    expect((await job.execute()).kind).toBe("succeeded");
    expect(await textOf(job)).toBe("$ echo ours\nours\n$ echo theirs\ntheirs\n");
    const { warnings } = await job.stored();
    expect(warnings.join()).toMatch(/names hosts that a repository may not: other\.example;/);
  });

  test("without a sandbox leaves the repository's file out, and runs the profile's own; the operator can have both", async () => {
    const file = { run: ["echo theirs"], env: { THEIRS: "1" } };
    const given = { profile: { setup: { each: ["echo ours$THEIRS"] } }, over: { isSandboxed: false } };
    const job = await claimWith(file, given);
    expect((await job.execute()).kind).toBe("succeeded");
    expect(await textOf(job)).toBe("$ echo ours$THEIRS\nours\n");
    expect((await job.stored()).warnings.join()).toContain("SERVICE_SETUP_UNSANDBOXED=true");
    const settings = { setupHosts: [], setupUnsandboxed: true };
    const trusted = await claimWith(file, { ...given, over: { isSandboxed: false, settings } });
    expect((await trusted.execute()).kind).toBe("succeeded");
    expect(await textOf(trusted)).toContain("theirs\n");
  });

  test("changes nothing of the work: what it leaves is named and put back, what git ignores stays", async () => {
    const run = ["echo x > README.md; touch new.txt kept.ignored; git add new.txt; git commit -qm mine"];
    const job = await claimWith({ run });
    const { kind, patch } = await job.execute();
    expect(kind).toBe("succeeded");
    const { warnings, worktree_path } = await job.stored();
    expect(warnings.join()).toContain("which were put back: README.md, new.txt");
    const path = String(worktree_path);
    expect((await stat(join(path, "kept.ignored"))).isFile()).toBe(true);
    expect(await plainGit(path, "diff", "--name-only", `${patch.branch}~1`, String(patch.branch))).toBe(
      "agent-output.txt",
    );
  });

  test("leaves the uncommitted work of an earlier job where it is", async () => {
    const run = ["touch new.txt"];
    const first = await claimWith({ run });
    await first.execute();
    const stored = await first.stored();
    await writeFile(join(String(stored.worktree_path), "mine.txt"), "mine");
    const again = await first.execute({}, { ...stored, stages: [] });
    expect(again.kind).toBe("succeeded");
    const tree = await plainGit(first.remote.url, "ls-tree", "--name-only", String(again.patch.branch));
    expect(tree).toMatch(/^mine\.txt$/m);
  });

  test("that a stop interrupts leaves no process and no file, and is run again", async () => {
    const run = ["test -f go.ignored && exit 0; touch left.txt started.ignored; sleep 1000 & wait"];
    const job = await claimWith({ run });
    const running = job.execute();
    const path = await until(async () => (await job.stored()).worktree_path);
    await until(async () => (await stat(join(path, "started.ignored")).catch(() => null)) !== null);
    job.interrupt("shutdown");
    expect(await running).toMatchObject({ kind: "requeue" });
    expect(await plainGit(path, "status", "--porcelain")).toBe("");
    await writeFile(join(path, "go.ignored"), "");
    expect((await job.execute({}, await job.stored())).kind).toBe("succeeded");
  });

  test("starts its services before `each`, beside the agent and each check, and leaves none", async () => {
    const beats = "echo $$ >> pids.ignored; while :; do date > beat.ignored; sleep 0.05; done";
    const services = [{ name: "beat", command: beats, ready: "test -e beat.ignored" }];
    const isBeating = "rm -f beat.ignored; until test -e beat.ignored; do sleep 0.05; done";
    const checks = [{ name: "beats", run: isBeating, timeout: 20 }];
    const each = ["test -e run.ignored", isBeating];
    const job = await claimWith(
      { run: ["test ! -e pids.ignored; touch run.ignored"], each, services, env: { DUMP_TO: "env.ignored" } },
      { profile: { checks } },
    );
    expect((await job.execute()).patch).toMatchObject({ checks: [{ status: "passed" }] });
    const path = String((await job.stored()).worktree_path);
    const pids = (await readFile(join(path, "pids.ignored"), "utf8")).trim().split("\n");
    expect(pids).toHaveLength(3);
    for (const pid of pids)
      expect(await readFile(`/proc/${pid}/status`, "utf8").catch(() => "gone")).toMatch(/^gone$|State:\s+Z/);
  });

  test("is all that a job does which wants no more: its worktree is removed", async () => {
    const options = { ...noOptions, setup_only: true };
    const job = await claimWith({ run: ["echo ready > made.ignored"] }, { patch: { options } });
    const { kind, patch } = await job.execute();
    expect({ kind, ...patch }).toMatchObject({ kind: "succeeded", outcome: "no_change", branch: null });
    const stored = await job.stored();
    expect(stored).toMatchObject({ session_id: null, cost_usd: null, setup: { exit_code: 0 } });
    expect(await stat(String(stored.worktree_path)).catch(() => null)).toBeNull();
    const failed = await claimWith({ run: ["exit 3"] }, { patch: { options } });
    expect((await failed.execute()).patch).toMatchObject({ failure_reason: "setup_failed" });
    expect(await stat(String((await failed.stored()).worktree_path)).catch(() => null)).toBeNull();
    const none = await claimWith(null, { patch: { options } });
    expect((await none.execute()).patch.summary).toContain("There is no setup: write .svc/setup.yml");
  });

  test("is not run again for a job that goes on; its env holds", async () => {
    const patch = { resumed_at: new Date().toISOString() };
    const env = { GREETING: "hello", DUMP_TO: "env.ignored" };
    const job = await claimWith({ run: ["exit 1"], env }, { patch });
    expect((await job.execute()).kind).toBe("succeeded");
    const path = String((await job.stored()).worktree_path);
    expect(await readFile(join(path, "env.ignored"), "utf8")).toMatch(/^GREETING=hello$/m);
  });
});
