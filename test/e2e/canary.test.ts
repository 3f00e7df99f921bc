import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import type { Refusal } from "../fake-git-host/refusals.ts";
import { cachedCloneOf, savedCloneOf } from "../cached-clone.ts";
import { git } from "../remote.ts";
import { betrayed, betrayedByFiles } from "./canaries.ts";
import { startCanaryWorld, type CanaryWorld, type Way } from "./canary-world.ts";
import { runJob } from "./ended-job.ts";
import type { Recorded } from "./recorded-programs.ts";

/** A job whose agent prints everything that it can find out. */
const talkativeJob = async (
  world: CanaryWorld,
  name: string,
  { exit = 0, refuse }: { exit?: number; refuse?: Refusal },
) => {
  const options = { report: world.report(name), key: world.keyFile, exit };
  using _refusal = refuse && world.host.refuse(refuse);
  return await runJob(world.service, `Look around\ncanary: ${JSON.stringify(options)}`, {
    repo_url: `${world.host.origin}/acme/${name}.git`,
  });
};

type Ending = "good" | "failing" | "push" | "pull" | "clone";

/** Jobs that end in these ways, one after another, each with secrets in its input. */
const runJobs = async (world: CanaryWorld, endings: readonly Ending[]): Promise<Job[]> => {
  const message = `denied for ${world.token} ${Buffer.from(`x-access-token:${world.token}`).toString("base64")}`;
  const how: Record<Ending, [Parameters<typeof talkativeJob>[2], Partial<Job>]> = {
    good: [{}, { status: "succeeded", error: null }],
    failing: [{ exit: 3 }, { failure_reason: "agent_exit" }],
    push: [{ refuse: { what: "push", how: "hook", message } }, { failure_reason: "push_failed" }],
    pull: [{ refuse: { what: "pull_request", how: 403, message } }, { failure_reason: "pr_failed" }],
    clone: [{ refuse: { what: "git_read", how: 403, message } }, { failure_reason: "clone_failed" }],
  };
  const jobs: Job[] = [];
  for (const ending of endings) {
    const [options, end] = how[ending];
    const job = await talkativeJob(world, ending, options);
    expect(job).toMatchObject(end);
    jobs.push(job);
  }
  return jobs;
};

/** What every endpoint answers, in good cases and in bad ones. */
const allAnswers = async ({ service, keys, token }: CanaryWorld, jobs: Job[]): Promise<string> => {
  const ids = jobs.map(({ id }) => id);
  const paths = [
    ..."health ready metrics openapi.json docs profiles jobs jobs?limit=x nowhere".split(" "),
    `jobs/${token}`,
  ];
  const ask = async (path: string, init: RequestInit = {}): Promise<string> => {
    const answer = await fetch(`${service.url}/${path}`, {
      headers: { "x-api-key": keys[0] ?? "" },
      ...init,
    });
    return `${JSON.stringify([...answer.headers])} ${await answer.text()}`;
  };
  const post = (body: unknown) =>
    ask("jobs", {
      method: "POST",
      headers: { authorization: `Bearer ${keys[1]}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const answers = await Promise.all([
    ...paths.map((path) => ask(path)),
    ...ids.flatMap((id) => [
      ask(`jobs/${id}`),
      ask(`jobs/${id}/events`),
      ask(`jobs/${id}`, { method: "DELETE" }),
    ]),
    ask(`profiles?api_key=${encodeURIComponent(keys[1] ?? "")}`, { headers: {} }),
    ask("jobs", { headers: { "x-api-key": `${keys[0]}x` } }),
    ask(`jobs?api_key=${keys[0]}x`, { headers: {} }),
    post({ task: "x", repo_url: `https://user:${token}@localhost/acme/app.git` }),
    post({ task: "x", profile: "nobody" }),
    post({ nonsense: true }),
  ]);
  // The question's own words are no secret given away.
  return answers.join("\n").replaceAll(`There is no job ${token}`, "");
};

/** What the agent said and thought, its pieces put together as a client does. */
const allWords = async ({ service }: CanaryWorld, jobs: Job[]): Promise<string> => {
  let words = "";
  for (const { id } of jobs)
    for await (const event of service.client.events(id, { signal: AbortSignal.timeout(100_000) }))
      if (event.type === "text" || event.type === "thinking") words += event.text;
  return words;
};

/** Commits, messages and contents, of every repository on the host and in the cache. */
const allCommits = async ({ host }: CanaryWorld, jobs: Job[]): Promise<string> => {
  const caches = await Promise.all(
    jobs.map(async ({ worktree_path }) =>
      worktree_path === null
        ? []
        : [worktree_path, await cachedCloneOf(worktree_path), await savedCloneOf(worktree_path)],
    ),
  );
  const directories = [
    ...caches.flat().filter((path) => existsSync(path)),
    ...[...host.repositories.values()].map(({ directory }) => directory),
  ];
  const logs = directories.map((directory) => git(directory, "log", "--all", "--patch", "--format=raw"));
  return (await Promise.all(logs)).join("\n");
};

/** With what the agent may know of the model, under our names and under the CLI's. */
const ways: [Way, Ending[], string[], string[]][] = [
  [
    { model: "oauth", gitHost: "app" },
    ["good", "failing", "pull"],
    ["AGENT_CLI_OAUTH_TOKEN"],
    ["CLAUDE_CODE_OAUTH_TOKEN"],
  ],
  [
    { model: "key", gitHost: "token" },
    ["good", "push", "clone"],
    ["MODEL_API_AUTH_TOKEN", "ANTHROPIC_API_KEY", "MODEL_API_BASE_URL"],
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"],
  ],
];

test.concurrent.each(ways)(
  "no credential of the service is seen anywhere when it has $model and $gitHost",
  async (way, endings, modelNames, cliNames) => {
    const world = await startCanaryWorld(way);
    const { host, service, canaries } = world;
    try {
      const jobs = await runJobs(world, endings);
      const minted = [...host.tokens.keys()].filter((token) => token.startsWith("ghs_"));
      expect(minted.length > 0).toBe(way.gitHost === "app");
      const all = { ...canaries, minted: minted.join("\n") };

      expect(betrayed(await allAnswers(world, jobs), all)).toEqual([]);
      const words = await allWords(world, jobs);
      expect(words).toContain("PATH=");
      expect(betrayed(words, all)).toEqual([]);
      expect(betrayed(JSON.stringify(host.pullRequests), all)).toEqual([]);
      expect(betrayed(await allCommits(world, jobs), all)).toEqual([]);

      // What the agent may know, and nothing else.
      const network = ["HTTPS_PROXY", "OTEL_EXPORTER_OTLP_ENDPOINT"];
      const { environ, argv } = JSON.parse(await readFile(world.report("good"), "utf8")) as Record<
        string,
        string
      >;
      expect(new Set(betrayed(String(environ), all))).toEqual(new Set([...modelNames, ...network]));
      expect(betrayed(JSON.stringify(argv), all)).toEqual([]);
      const names = [...String(environ).matchAll(/^(ANTHROPIC\w*|CLAUDE_CODE_OAUTH\w*)=/gm)].map(
        ([, name]) => name,
      );
      expect(new Set(names)).toEqual(new Set(cliNames));

      const programs = (await world.recorded()).filter(
        ({ environ: own }) => !own.includes("CLAUDE_CONFIG_DIR="),
      );
      expect(new Set(programs.map(({ program }) => program))).toEqual(new Set(["git", "gh"]));
      // gh runs a git of its own.
      const talks = ({ argv: own, environ: given }: Recorded) =>
        given.includes("GH_HOST=") || /(^|\0)(clone|fetch|push|ls-remote)\0/.test(own);
      const gitToken = way.gitHost === "app" ? "minted" : "GIT_HOST_TOKEN";
      const known = (talking: boolean) =>
        new Set(
          programs.filter((one) => talks(one) === talking).flatMap(({ environ: own }) => betrayed(own, all)),
        );
      expect(known(true)).toEqual(new Set(["HTTPS_PROXY", gitToken]));
      expect(known(false)).toEqual(new Set(["HTTPS_PROXY"]));
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
  },
);
