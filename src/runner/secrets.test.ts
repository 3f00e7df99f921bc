import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { secretPhases } from "../contract/secret.ts";
import { plainGit } from "../repos/plain-git.fixture.ts";
import type { JobSecret, JobSecrets } from "../secrets/secrets.ts";
import { claimJob } from "./runner.fixture.ts";
import { launchWith } from "./secrets.ts";
import { findSecret } from "../secrets/find.ts";

const secretOf = (phase: string): JobSecret => ({
  name: `${phase.toUpperCase()}_SECRET`,
  value: `canary-${phase}-0123456789`,
  placeholder: `placeholder-${phase}`,
  hosts: ["api.example"],
  header: null,
  created_at: "2026-01-02T03:04:05.000Z",
});

const secrets = Object.fromEntries(secretPhases.map((phase) => [phase, [secretOf(phase)]])) as JobSecrets;
const valueOf = (phase: keyof JobSecrets): string => secrets[phase][0]?.value ?? "";

/** Writes its environment to $DUMP_TO. */
const agentCliBinary = join(import.meta.dirname, "../../test/e2e/environment-agent");

/** A claimed job with a secret of each phase, whose profile has this setup and these checks. */
const claimWith = async (setup: object, checks: readonly string[] = [], task = "scenario: work") => {
  const job = await claimJob(task, { profile: "ours" }, { agentCliBinary }, false, {}, secrets);
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const profile = {
    extends: "code",
    setup: { env: { DUMP_TO: "env.ignored" }, ...setup },
    checks: checks.map((run, at) => ({ name: `check-${at}`, run })),
  };
  await writeFile(join(profiles, "ours.yml"), JSON.stringify(profile));
  await job.remote.commit({ ".gitignore": "*.ignored" });
  return job;
};

/** Whether the environment has them. */
const has = (...phases: (keyof JobSecrets)[]): string =>
  secretPhases
    .map(
      (phase) =>
        `test "$${phase.toUpperCase()}_SECRET" ${phases.includes(phase) ? "=" : "!="} ${valueOf(phase)}`,
    )
    .join(" && ");

test("commands get the secrets of their phase, `each` gets none, and an agent in a sandbox placeholders", async () => {
  const job = await claimWith({ run: [has("setup")], each: [has()] }, [has("checks")]);
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  expect(patch.checks).toMatchObject([{ status: "passed" }]);
  const path = String((await job.stored()).worktree_path);
  const environment = await readFile(join(path, "env.ignored"), "utf8");
  expect(environment).toContain("AGENT_SECRET=placeholder-agent\n");
  expect(environment).not.toMatch(/canary|SVC_WITHIN/);
});

test("what commands say of them is masked, in each form and over the ends of pieces", async () => {
  const said = [
    "echo $SETUP_SECRET; printf %s $SETUP_SECRET | base64; printf xx$SETUP_SECRET | base64 -w0",
    "for part in canary-setup- 0123456789; do printf %s $part; sleep 0.1; done; echo; exit 1",
  ];
  const job = await claimWith({ run: said, on_failure: "continue" });
  await job.execute();
  const told = JSON.stringify([await job.published(), await job.stored()]);
  expect(told).toContain("***");
  for (const form of [
    valueOf("setup"),
    ...["", "xx"].map((text) => Buffer.from(text + valueOf("setup")).toString("base64")),
  ])
    expect(told).not.toContain(form.replace(/..?=*$/, ""));
});

test.each([
  ["an ignored file", "echo token=$SETUP_SECRET > npmrc.ignored", "npmrc.ignored"],
  ["whose name is no UTF-8", "echo $SETUP_SECRET > $(printf 'a\\377.ignored')", "a\ufffd.ignored"],
  ["among git's files", "echo $SETUP_SECRET > .git/note", ".git/note"],
  ["what is kept for people", "mkdir -p .svc/out; echo $SETUP_SECRET > .svc/out/a; exit 1", ".svc/out/a"],
])(
  "a setup that leaves one to the agent fails its job, and names the file: %s",
  async (_where, run, file) => {
    const job = await claimWith({ run: [run] });
    const { kind, patch } = await job.execute();
    expect({ kind, ...patch }).toMatchObject({
      kind: "failed",
      failure_reason: "setup_failed",
      retryable: false,
      error: expect.stringContaining(`in ${file}, which was removed`) as string,
    });
    const stored = await job.stored();
    expect(stored.session_id).toBeNull();
    expect(JSON.stringify([patch, stored, await job.published()])).not.toContain(valueOf("setup"));
    expect(patch.files ?? []).toEqual([]);
    expect(await findSecret(String(stored.worktree_path), [""], [valueOf("setup")])).toBeNull();
  },
);

test("what a check leaves is removed with a warning; the job succeeds", async () => {
  const job = await claimWith({}, ["echo $CHECKS_SECRET > left.ignored"]);
  expect((await job.execute()).kind).toBe("succeeded");
  const { warnings, worktree_path } = await job.stored();
  expect(warnings.join()).toContain("A secret's value was in left.ignored, which was removed");
  expect(await readdir(String(worktree_path))).not.toContain("left.ignored");
});

test("a change that holds one is not pushed, and the file is named", async () => {
  const task = `scenario: work ${JSON.stringify({ file: "config.txt", content: `key: ${valueOf("checks")}` })}`;
  const job = await claimWith({}, [], task);
  const { kind, patch } = await job.execute();
  expect({ kind, ...patch }).toMatchObject({
    kind: "failed",
    failure_reason: "push_failed",
    error: expect.stringContaining("is in config.txt") as string,
  });
  expect(await plainGit(job.remote.url, "branch", "--list")).not.toContain("service/");
});

test("without a sandbox an agent gets only what the operator names", () => {
  const launch = { env: { A: "b" } };
  const unsandboxed = { isSandboxed: false, inTheOpen: [] };
  expect(launchWith([], launch, unsandboxed)).toMatchObject(launch);
  expect(() => launchWith(secrets.agent, launch, unsandboxed)).toThrow("AGENT_SECRET: set up a sandbox");
  expect(launchWith(secrets.agent, launch, { ...unsandboxed, inTheOpen: ["AGENT_SECRET"] })).toEqual({
    env: { A: "b", AGENT_SECRET: valueOf("agent") },
    secrets: [],
  });
});
