import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Job } from "../src/contract/job.ts";
import { createLog } from "../src/lib/log.ts";
import { createEnvironments } from "../src/place/environments.ts";
import { makeRemoteIn } from "../test/remote.ts";
import type { Service } from "../test/service-process.ts";
import { until } from "../test/until.ts";
import { atMost, median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const run = promisify(execFile);

/**
 * What a warm environment saves: projects with packages of the registry that this machine is set up for, and 40,000 files.
 * BENCH_REFLINK_DIRECTORY: on a file system with references (XFS, btrfs); absent: these are not measured.
 */
export const setup = async (): Promise<Figure[]> => [
  await project("npm, 9 packages of the registry", await npmProject()),
  await project("Python, 6 packages of the registry", pythonProject),
  ...(await files()),
];

/** What this machine's certificates are. */
const certificates = Object.fromEntries(
  ["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  }),
);

type Project = { files: Record<string, string>; setup: { run: string[]; cache: object; env: object } };

const npmProject = async (): Promise<Project> =>
  await withDirectory(async (directory) => {
    const names = "express typescript eslint prettier webpack webpack-cli react react-dom mocha".split(" ");
    const dependencies = Object.fromEntries(names.map((name) => [name, "*"]));
    const manifest = JSON.stringify({ name: "bench", version: "1.0.0", private: true, dependencies });
    await writeFile(join(directory, "package.json"), manifest);
    await run("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], { cwd: directory });
    const { stdout: lock } = await run("cat", ["package-lock.json"], {
      cwd: directory,
      maxBuffer: 64_000_000,
    });
    return {
      files: { "package.json": manifest, "package-lock.json": lock },
      setup: {
        // With an empty cache of its own, as a first job has it.
        run: ["npm ci --no-audit --no-fund --cache .npm"],
        cache: { key: ["package-lock.json"], paths: ["node_modules"] },
        env: { ...certificates, npm_config_userconfig: join(homedir(), ".npmrc") },
      },
    };
  });

const pythonProject: Project = {
  files: { "requirements.txt": "requests\nflask\nsqlalchemy\npytest\njinja2\nrich\n" },
  setup: {
    run: [
      "python3 -m pip install --quiet --retries 0 --no-cache-dir --target deps --requirement requirements.txt",
    ],
    cache: { key: ["requirements.txt"], paths: ["deps"] },
    env: Object.fromEntries([
      ...Object.entries(certificates),
      ["PIP_CONFIG_FILE", join(homedir(), ".config/pip/pip.conf")],
      ...Object.entries(process.env).filter(([name]) => name.startsWith("PIP_")),
    ]),
  },
};

const rounds = 3;

const project = async (what: string, { files: content, setup: keys }: Project): Promise<Figure> =>
  await withDirectory(async (directory) => {
    await mkdir(join(directory, "home"));
    const remote = await makeRemoteIn(directory, {
      ...content,
      ".gitignore": ".npm\nnode_modules\ndeps\n",
      ".svc/setup.yml": JSON.stringify(keys),
    });
    const env = { SERVICE_SETUP_UNSANDBOXED: "true", SERVICE_AGENT_SANDBOX: "off" };
    return await withService(join(directory, "home"), env, async (service) => {
      const cold = await secondsOf(service, remote.path, "cold");
      const warm: number[] = [];
      const root = join(directory, "home", ".service", "worktrees", ".environments");
      for (let round = 0; round < rounds; round += 1) {
        // It is made while no job is readied.
        await until(async () => (await spares(root)) > 0, { seconds: 120, what: "a spare copy" });
        warm.push(await secondsOf(service, remote.path, "warm"));
      }
      const value = median(warm) / cold;
      return {
        what: `setup of a job, ${what}`,
        ours: `${median(warm).toFixed(2)} s (warm)`,
        baseline: `${cold.toFixed(2)} s (cold)`,
        value,
        unit: "x",
        target: "≤ 0.10 ×",
        met: atMost(value, 0.1),
      };
    });
  });

const spares = async (root: string): Promise<number> => {
  const { stdout } = await run("find", [root, "-mindepth", "3", "-maxdepth", "3", "-name", "spare"]);
  return stdout.split("\n").length - 1;
};

const secondsOf = async ({ client }: Service, url: string, expected: string): Promise<number> => {
  const { job } = await client.run_task({ task: "scenario: noop", repo_url: url });
  const ended: Job = await until(
    async () => {
      const { job: now } = await client.get_job({ job_id: job.id });
      return now.ended_at === null ? null : now;
    },
    { seconds: 600 },
  );
  if (ended.status !== "succeeded" || ended.setup?.cache !== expected)
    throw new Error(`${expected} was expected: ${JSON.stringify(ended)}`);
  const at = (stage: string) => Date.parse(ended.stages.find((each) => each.stage === stage)?.at ?? "");
  return (at("setup") - at("worktree_ready")) / 1000;
};

const count = 40_000;

const files = async (): Promise<Figure[]> => {
  const reflinks = process.env["BENCH_REFLINK_DIRECTORY"];
  const usual = await withDirectory((directory) => giveTimes(directory));
  const referenced = reflinks === undefined ? null : await giveTimes(join(reflinks, `bench-${process.pid}`));
  return [
    figure("by copy", usual.copied, { baseline: usual.kept, limit: 5000 }),
    figure("by rename of a spare copy", usual.renamed, { baseline: usual.copied, limit: 1000 }),
    ...(referenced === null
      ? []
      : [figure("by reference", referenced.copied, { baseline: usual.copied, limit: 1000 })]),
  ];
};

const figure = (
  how: string,
  value: number,
  { baseline, limit }: { baseline: number; limit: number },
): Figure => ({
  what: `${count} files given ${how}`,
  ours: `${value.toFixed(0)} ms`,
  baseline: `${baseline.toFixed(0)} ms`,
  value,
  unit: "ms",
  target: `≤ ${limit} ms`,
  met: atMost(value, limit),
});

/** Milliseconds in which they are kept, given by copy, and given by rename. */
const giveTimes = async (directory: string): Promise<{ kept: number; copied: number; renamed: number }> => {
  const signal = new AbortController().signal;
  const environments = createEnvironments({
    root: join(directory, "environments"),
    maxBytes: 1e12,
    requireRoom: async () => undefined,
    log: createLog("error", (text) => text),
    signal,
  });
  const places = async (name: string) => {
    const made = { worktree: join(directory, name), home: join(directory, `${name}-home`) };
    for (const path of Object.values(made)) await mkdir(path, { recursive: true });
    return made;
  };
  const from = await places("made");
  for (let nth = 0; nth < 400; nth += 1) {
    const at = join(from.worktree, "node_modules", String(nth));
    await mkdir(at, { recursive: true });
    for (let file = 0; file < count / 400; file += 1)
      await writeFile(join(at, String(file)), `${nth} `.repeat(200));
  }
  const name = { text: "0".repeat(16), usual: "0".repeat(16), key: "0".repeat(16) };
  const key = "aaaaaaaaaaaa";
  const timed = async (work: () => Promise<unknown>): Promise<number> => {
    const began = performance.now();
    await work();
    return performance.now() - began;
  };
  const facts = { ...name, repoUrl: "bench", paths: ["node_modules"] };
  const kept = await timed(() =>
    environments.keep(key, facts, { from, search: async () => undefined, signal }),
  );
  await environments.idle();
  const [first, second] = [await places("first"), await places("second")];
  const renamed = await timed(() => environments.give(key, name, { to: first, signal }));
  // The spare copy is being made: this one is copied while the disk is busy otherwise, too.
  const copied = await timed(() => environments.give(key, name, { to: second, signal }));
  await environments.idle();
  return { kept, copied, renamed };
};
