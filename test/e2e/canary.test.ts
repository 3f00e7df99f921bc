import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import type { Refusal } from "../fake-git-host/refusals.ts";
import { git } from "../remote.ts";
import { betrayed, betrayedByFiles } from "./canaries.ts";
import { startCanaryWorld, type CanaryWorld, type Way } from "./canary-world.ts";
import { runJob } from "./ended-job.ts";

/** A job whose agent tells all it can find out. */
const talkativeJob = async (world: CanaryWorld, name: string, { exit = 0, refuse }: { exit?: number; refuse?: Refusal } = {}) => {
  const repository = await world.host.createRepository("acme", name, { private: true });
  const options = { report: world.report(name), key: world.keyFile, exit };
  using _refusal = refuse && world.host.refuse(refuse);
  return await runJob(world.service, `Look around\ncanary: ${JSON.stringify(options)}`, { repo_url: repository.url });
};

/** One job for each way to end, each of which has secrets in what it is told. */
const runAllJobs = async (world: CanaryWorld) => {
  const told = `denied for ${world.token} ${Buffer.from(`x-access-token:${world.token}`).toString("base64")}`;
  const jobs = {
    good: await talkativeJob(world, "good"),
    failing: await talkativeJob(world, "failing", { exit: 3 }),
    push: await talkativeJob(world, "push", { refuse: { what: "push", how: "hook", message: told } }),
    pull: await talkativeJob(world, "pull", { refuse: { what: "pull_request", how: 403, message: told } }),
    clone: await talkativeJob(world, "clone", { refuse: { what: "git_read", how: 403, message: told } }),
  };
  expect(jobs.good).toMatchObject({ status: "succeeded", pr_url: expect.any(String) as string });
  expect(jobs.failing).toMatchObject({ status: "failed", failure_reason: "agent_exit" });
  expect(jobs.push).toMatchObject({ status: "failed", failure_reason: "push_failed" });
  expect(jobs.pull).toMatchObject({ status: "failed", failure_reason: "pr_failed" });
  expect(jobs.clone).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  return Object.values(jobs);
};

/** What every endpoint answers, in good cases and in bad ones. */
const allAnswers = async ({ service, keys, token }: CanaryWorld, jobs: Job[]): Promise<string> => {
  const ids = jobs.map(({ id }) => id);
  const paths = ["health", "ready", "metrics", "openapi.json", "docs", "profiles", "jobs", "jobs?limit=x", "nowhere", `jobs/${token}`];
  const ask = async (path: string, init: RequestInit = {}): Promise<string> => {
    const answer = await fetch(`${service.url}/${path}`, { headers: { "x-api-key": keys[0] ?? "" }, ...init });
    return `${path} ${JSON.stringify([...answer.headers])} ${await answer.text()}`;
  };
  const post = (body: unknown) =>
    ask("jobs", {
      method: "POST",
      headers: { authorization: `Bearer ${keys[1]}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const answers = await Promise.all([
    ...paths.map((path) => ask(path)),
    ...ids.flatMap((id) => [ask(`jobs/${id}`), ask(`jobs/${id}/events`), ask(`jobs/${id}`, { method: "DELETE" })]),
    ask(`profiles?api_key=${encodeURIComponent(keys[1] ?? "")}`, { headers: {} }),
    ask("jobs", { headers: { "x-api-key": `${keys[0]}x` } }),
    ask(`jobs?api_key=${keys[0]}x`, { headers: {} }),
    post({ task: "x", repo_url: `https://user:${token}@localhost/acme/app.git` }),
    post({ task: "x", profile: "nobody" }),
    post({ nonsense: true }),
  ]);
  // The question's own words are no secret given away.
  return answers.join("\n").replaceAll(`jobs/${token}`, "").replaceAll(`There is no job ${token}`, "");
};

/** Commits, messages and contents, of every repository on the host and in the cache. */
const allCommits = async ({ host, service }: CanaryWorld, jobs: Job[]): Promise<string> => {
  const caches = await Promise.all(
    jobs.flatMap(({ worktree_path }) =>
      worktree_path === null ? [] : [git(service.home, "-C", worktree_path, "rev-parse", "--git-common-dir")],
    ),
  );
  const directories = [...caches, ...[...host.repositories.values()].map(({ directory }) => directory)];
  const logs = directories.map((directory) => git(directory, "log", "--all", "--patch", "--format=raw"));
  return (await Promise.all(logs)).join("\n");
};

const ways: [Way, string[]][] = [
  [{ model: "oauth", gitHost: "app" }, ["AGENT_CLI_OAUTH_TOKEN"]],
  [{ model: "key", gitHost: "token" }, ["MODEL_API_AUTH_TOKEN", "ANTHROPIC_API_KEY", "MODEL_API_BASE_URL"]],
];

test.concurrent.each(ways)("no credential of the service is seen anywhere when it has $model and $gitHost", async (way, modelNames) => {
  const world = await startCanaryWorld(way);
  const { host, service, canaries } = world;
  try {
    const jobs = await runAllJobs(world);
    const minted = [...host.tokens.keys()].filter((token) => token.startsWith("ghs_"));
    expect(minted.length > 0).toBe(way.gitHost === "app");
    const all = { ...canaries, minted: minted.join("\n") };

    expect(betrayed(await allAnswers(world, jobs), all)).toEqual([]);
    expect(betrayed(JSON.stringify(host.pullRequests), all)).toEqual([]);
    expect(betrayed(await allCommits(world, jobs), all)).toEqual([]);

    // What the agent may know, and nothing else.
    const network = ["HTTPS_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    const { environ, argv } = JSON.parse(await readFile(world.report("good"), "utf8")) as Record<string, string>;
    expect(new Set(betrayed(String(environ), all))).toEqual(new Set([...modelNames, ...network]));
    expect(betrayed(JSON.stringify(argv), all)).toEqual([]);
    const names = String(environ).split("\n").map((line) => line.split("=")[0]);
    expect(names.filter((name) => /^(ANTHROPIC|CLAUDE_CODE_OAUTH)/.test(name ?? "")).toSorted()).toEqual(
      way.model === "oauth"
        ? ["CLAUDE_CODE_OAUTH_TOKEN"]
        : ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"],
    );

    const programs = (await world.recorded()).filter(({ environ: own }) => !own.includes("CLAUDE_CONFIG_DIR="));
    expect(new Set(programs.map(({ program }) => program))).toEqual(new Set(["git", "gh"]));
    const mayKnow = ["HTTPS_PROXY", way.gitHost === "app" ? "minted" : "GIT_HOST_TOKEN"];
    for (const { program, argv: own, environ: given } of programs) {
      const needsToken = program === "gh" || /(^|\0)(fetch|push|ls-remote)\0/.test(own);
      const known = betrayed(given, all).filter((name) => !needsToken || !mayKnow.includes(name));
      expect([own, known.filter((name) => name !== "HTTPS_PROXY")]).toEqual([own, []]);
    }
    const commandLines = [...(await world.commandLines.stop()), ...programs.map(({ argv: own }) => own)];
    expect(commandLines.some((line) => line.includes("canary-agent"))).toBe(true);
    expect(commandLines.filter((line) => betrayed(line, all).length > 0)).toEqual([]);

    expect(await service.stop()).toBe(0);
    expect(service.output.stderr).toContain('"level":"info"');
    expect(betrayed(service.output.stdout + service.output.stderr, all)).toEqual([]);
    expect(betrayedByFiles(service.home, all)).toEqual([]);
  } finally {
    await world.commandLines.stop();
    await host.close();
  }
});
