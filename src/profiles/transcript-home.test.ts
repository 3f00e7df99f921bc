import { execFile } from "node:child_process";
import { lstat, mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { jobId, launchOf, process as started, request, setup, setupHub, writer } from "./profiles.fixture.ts";

const origin = { id: jobId, repo_url: "https://github.com/acme/app" };

const line = (display: string): string => `${JSON.stringify({ display, timestamp: 1 })}\n`;

/** A job's configuration directory, and what its agent leaves there. */
const withJob = async (files: Record<string, string> = {}) => {
  const state = await setup();
  const { profiles, shared } = state;
  const { configDir } = await launchOf(profiles, request("code"));
  const leave = async (more: Record<string, string>): Promise<void> => {
    for (const [path, content] of Object.entries(more)) {
      await mkdir(dirname(join(configDir, path)), { recursive: true });
      await writeFile(join(configDir, path), content);
    }
  };
  await leave(files);
  return {
    ...state,
    configDir,
    leave,
    kept: (path: string) => readFile(join(shared, path), "utf8"),
    plans: async () =>
      (await readdir(join(shared, "plans")).catch((): string[] => [])).toSorted((a, b) => (a < b ? -1 : 1)),
    isGone: () =>
      lstat(configDir).then(
        () => false,
        () => true,
      ),
  };
};

it("plans and history outlive the configuration directory, readable by the owner alone", async () => {
  const job = await withJob({
    "plans/calm-otter.md": "# Plan",
    "plans/calm-otter-agent-1a2b.md": "# Part",
    "plans/notes.txt": "no plan",
    "history.jsonl": line("first").trimEnd(),
  });
  await writeFile(join(job.shared, "history.jsonl"), line("earlier"));
  await job.profiles.discard(jobId);
  expect(await job.isGone()).toBe(true);
  expect(await job.plans()).toEqual(["calm-otter-agent-1a2b.md", "calm-otter.md"]);
  expect(await job.kept("plans/calm-otter.md")).toBe("# Plan");
  expect(await job.kept("history.jsonl")).toBe(line("earlier") + line("first"));
  expect((await lstat(join(job.shared, "plans"))).mode & 0o777).toBe(0o700);
  expect((await lstat(join(job.shared, "plans/calm-otter.md"))).mode & 0o777).toBe(0o600);
  expect(job.warnings).toEqual([]);
});

it("a second attempt finds neither, and what the first left is kept", async () => {
  const job = await withJob({ "plans/a.md": "first", "history.jsonl": line("one") });
  await launchOf(job.profiles, request("code"));
  expect(await readdir(job.configDir)).not.toContain("plans");
  await job.leave({ "plans/a.md": "second", "history.jsonl": line("two") });
  await job.profiles.discard(jobId);
  expect(await job.kept("plans/a.md")).toBe("first");
  expect(await job.plans()).toEqual([expect.stringMatching(/^a-[0-9a-f]{8}\.md$/), "a.md"]);
  expect(await job.kept("history.jsonl")).toBe(line("one") + line("two"));
});

it("no plan overwrites another; the same one is kept once", async () => {
  const job = await withJob();
  for (const text of ["one", "two", "three", "two", "one", "three"]) {
    await job.leave({ "plans/a.md": text });
    await job.profiles.discard(jobId);
  }
  const names = await job.plans();
  const texts = await Promise.all(names.map((name) => job.kept(`plans/${name}`)));
  expect(texts.at(-1)).toBe("one");
  expect(texts.toSorted((a, b) => (a < b ? -1 : 1))).toEqual(["one", "three", "two"]);
});

it("a crash before the removal repeats no plan, and no history that was appended", async () => {
  const job = await withJob({ "plans/a.md": "one", "history.jsonl": line("one") });
  await job.profiles.discard(jobId);
  // As the next start finds it: the history was appended and removed, the rest is still there.
  await job.leave({ "plans/a.md": "one" });
  await job.profiles.discard(jobId);
  expect(await job.isGone()).toBe(true);
  expect(await job.plans()).toEqual(["a.md"]);
  expect(await job.kept("history.jsonl")).toBe(line("one"));
});

it("links, pipes and huge files of an agent are not kept, and a warning names them", async () => {
  const job = await withJob({ "plans/good.md": "good", "plans/huge.md": "x".repeat(1_048_577) });
  const secret = join(job.shared, "secret");
  await writeFile(secret, "secret");
  await symlink(secret, join(job.configDir, "plans/link.md"));
  await promisify(execFile)("mkfifo", [join(job.configDir, "history.jsonl")]);
  await job.profiles.discard(jobId);
  expect(await job.plans()).toEqual(["good.md"]);
  expect(await job.isGone()).toBe(true);
  expect(job.warnings).toHaveLength(1);
  for (const name of ["huge.md", "link.md", "history.jsonl"]) expect(job.warnings[0]).toContain(name);
});

it("a configuration directory that the agent has replaced by a link is removed, and nothing behind it", async () => {
  const job = await withJob();
  const other = join(job.shared, "other");
  await mkdir(join(other, "plans"), { recursive: true });
  await writeFile(join(other, "history.jsonl"), line("mine"));
  await rm(job.configDir, { recursive: true });
  await symlink(other, job.configDir);
  await job.profiles.discard(jobId);
  expect(await job.isGone()).toBe(true);
  expect(await job.kept("other/history.jsonl")).toBe(line("mine"));
  expect(await readdir(job.shared)).not.toContain("history.jsonl");
});

it("where nothing can be written, a job starts and ends all the same, with warnings", async () => {
  const job = await withJob({ "plans/a.md": "one", "history.jsonl": line("one") });
  await writeFile(join(job.shared, "plans"), "");
  for (const name of ["history.jsonl", "origins.jsonl"]) await mkdir(join(job.shared, name));
  await job.profiles.noteSession("s", origin);
  await job.profiles.discard(jobId);
  expect(await job.isGone()).toBe(true);
  expect(job.warnings).toHaveLength(2);
  expect(job.warnings[0]).toContain("origin is not noted");
});

it("many writers of one file leave whole lines", async () => {
  const [{ profiles, kept }, { agent, directory }] = [await withJob(), await setupHub()];
  await Promise.all(Array.from({ length: 50 }, (_, n) => profiles.noteSession(`s${n}`, origin)));
  const lines = (await kept("origins.jsonl")).trimEnd().split("\n");
  const origins = lines.map((each) => JSON.parse(each) as { session_id: string });
  expect(new Set(origins.map(({ session_id }) => session_id)).size).toBe(50);
  expect(origins[0]).toMatchObject({
    kind: "job",
    job_id: jobId,
    repo_url: origin.repo_url,
    at: "1970-01-01T00:00:00.000Z",
  });
  await agent.noteSession("conversation");
  expect(JSON.parse(await readFile(join(directory, "shared/origins.jsonl"), "utf8"))).toMatchObject({
    session_id: "conversation",
    kind: "chat",
    job_id: null,
  });
});

it("the processes of an earlier start of agent mode leave their plans", async () => {
  const { agent, directory } = await setupHub({ [writer("agent.yml")]: "" });
  const ids = ["agent-mark-", "agent-other-"].map((prefix) => prefix + started.processId);
  for (const processId of ids) {
    const { configDir } = await agent.materialise({ ...started, processId });
    await mkdir(join(configDir, "plans"));
    await writeFile(join(configDir, "plans/a.md"), processId);
  }
  await agent.discardEarlier("agent-other-");
  await agent.discardEarlier("agent-mark-");
  const plans = join(directory, "shared/plans");
  expect(await readFile(join(plans, "a.md"), "utf8")).toBe(ids[1]);
  const other = (await readdir(plans)).find((name) => name !== "a.md");
  expect(await readFile(join(plans, String(other)), "utf8")).toBe(ids[0]);
});
