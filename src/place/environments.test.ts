import { execFileSync, spawn } from "node:child_process";
import {
  chmod,
  link,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import type { Worktree } from "../repos/repos.ts";
import { instanceMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { createEnvironments } from "./environments.ts";
import type { Ended, Setup } from "./plan.ts";
import { InTheWay, type Places } from "./trees.ts";
import { createWarm } from "./warm.ts";

const log = createLog("silent", (text) => text);
const never = new AbortController().signal;
const name = { text: "0".repeat(16), usual: "0".repeat(16), key: "1".repeat(16) };
const [ours, theirs] = ["aaaaaaaaaaaa", "bbbbbbbbbbbb"] as const;

const open = async (over: Partial<Parameters<typeof createEnvironments>[0]> = {}) => {
  const root = over.root ?? join(await temporaryDirectory(), "environments");
  return {
    root,
    ...createEnvironments({
      root,
      maxBytes: 1e9,
      requireRoom: async () => undefined,
      log,
      signal: never,
      ...over,
    }),
  };
};

const write = async (top: string, files: Record<string, string>): Promise<void> => {
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(top, path)), { recursive: true });
    await writeFile(join(top, path), text);
  }
};

const places = async (files: Record<string, string> = {}): Promise<Places> => {
  const directory = await temporaryDirectory();
  const made = { worktree: join(directory, "worktree"), home: join(directory, "home") };
  for (const path of Object.values(made)) await mkdir(path);
  await write(made.worktree, files);
  return made;
};

type Environments = Awaited<ReturnType<typeof open>>;

const keep = (environments: Environments, from: Places, paths = ["node_modules"], repoKey: string = ours) =>
  environments.keep(
    repoKey,
    { ...name, repoUrl: `https://host/${repoKey}`, paths },
    { from, search: async () => undefined, signal: never },
  );

const give = async (environments: Environments, repoKey: string = ours, to?: Places) => {
  const target = to ?? (await places());
  return { cache: await environments.give(repoKey, name, { to: target, signal: never }), ...target };
};

test("what a setup made is given with its times, modes and links; no job shares a file with another", async () => {
  const environments = await open();
  const from = await places({ "node_modules/a/index.js": "1\n", "node_modules/a/run.sh": "2\n" });
  const tree = join(from.worktree, "node_modules");
  await symlink("../../packages/b", join(tree, "a/b"));
  await symlink("/usr/bin/env", join(tree, "env"));
  await utimes(join(tree, "a/index.js"), 1000, 1000);
  await chmod(join(tree, "a/run.sh"), 0o755);
  await link(join(tree, "a/index.js"), join(from.worktree, "outside"));
  await write(from.home, { ".cache/pip/wheel": "3\n" });
  expect(await keep(environments, from, ["node_modules", "~/.cache/pip", "missing"])).toEqual([]);
  // Without its spare copy, and with it.
  const jobs = [await give(environments), await environments.idle().then(() => give(environments))];
  for (const { cache, worktree, home } of jobs) {
    expect(cache).toBe("warm");
    const file = await lstat(join(worktree, "node_modules/a/index.js"));
    expect({ mtime: file.mtimeMs, links: file.nlink }).toEqual({ mtime: 1_000_000, links: 1 });
    expect((await lstat(join(worktree, "node_modules/a/run.sh"))).mode & 0o777).toBe(0o755);
    expect(await readlink(join(worktree, "node_modules/a/b"))).toBe("../../packages/b");
    expect(await readFile(join(home, ".cache/pip/wheel"), "utf8")).toBe("3\n");
    await writeFile(join(worktree, "node_modules/a/index.js"), "changed by a job\n");
  }
  const { worktree } = await give(environments);
  expect(await readFile(join(worktree, "node_modules/a/index.js"), "utf8")).toBe("1\n");
  expect(await environments.usage()).toMatchObject([{ repo_url: `https://host/${ours}`, entries: 1 }]);
});

test.each<[string, (tree: string) => unknown, string]>([
  ["a link out", (tree) => symlink("/etc/passwd", join(tree, "x")), "x is a link to /etc/passwd"],
  ["a link to another job", (tree) => symlink("../../../other", join(tree, "x")), "x is a link to"],
  ["a pipe", (tree) => execFileSync("mkfifo", [join(tree, "x")]), "x is no file"],
  [
    "a setuid file",
    (tree) => writeFile(join(tree, "x"), "").then(() => chmod(join(tree, "x"), 0o4755)),
    "x runs with",
  ],
])("a path with %s is kept for nobody", async (_, plant, said) => {
  const environments = await open();
  const from = await places({ "node_modules/a.js": "1\n", "target/b": "2\n" });
  await plant(join(from.worktree, "node_modules"));
  const [warning, ...more] = await keep(environments, from, ["node_modules", "target"]);
  expect(warning).toContain(said);
  expect(more).toEqual([]);
  const given = await give(environments);
  expect(given.cache).toBe("nearest");
  expect(await readdir(given.worktree)).toEqual(["target"]);
});

test("a link in the place of a path, or above it, is not followed: its job fails, and nothing is read", async () => {
  const environments = await open();
  const secret = await temporaryDirectory();
  await write(secret, { "node_modules/key": "private\n" });
  for (const [at, path] of [
    ["node_modules", "node_modules"],
    ["packages", "packages/node_modules"],
  ] as const) {
    const from = await places();
    await symlink(secret, join(from.worktree, at));
    await expect(keep(environments, from, [path])).rejects.toThrow(InTheWay);
  }
  expect(await environments.usage()).toEqual([]);
});

test("what one repository keeps is given to no other", async () => {
  const environments = await open();
  await keep(environments, await places({ "node_modules/evil.js": "1\n" }), ["node_modules"], theirs);
  expect(await give(environments)).toMatchObject({ cache: "cold" });
  expect(await environments.clear((url) => url.endsWith(ours))).toMatchObject({ removed: 0 });
  expect(await give(environments, theirs)).toMatchObject({ cache: "warm" });
});

test("a Python environment is kept only if it works elsewhere", async () => {
  const environments = await open();
  const from = await places({ ".venv/pyvenv.cfg": "home = /usr/bin\n", "other/pyvenv.cfg": "" });
  await write(from.worktree, { ".venv/bin/pip": `#!${from.worktree}/.venv/bin/python\n` });
  const warnings = await keep(environments, from, [".venv", "other"]);
  expect(warnings).toEqual([
    expect.stringMatching(/^\.venv is not kept .*bin\/pip names .*uv venv --relocatable/),
  ]);
  const given = await give(environments);
  expect({ cache: given.cache, has: await readdir(given.worktree) }).toEqual({
    cache: "nearest",
    has: ["other"],
  });
});

test("the least recently used goes when there is no room, none while it is given; what is too large is not kept", async () => {
  const text = "x".repeat(100_000);
  const environments = await open({ maxBytes: 350_000 });
  const kept = async (repoKey: string): Promise<string[]> => {
    const said = await keep(
      environments,
      await places({ "node_modules/a": text }),
      ["node_modules"],
      repoKey,
    );
    await environments.idle();
    return said;
  };
  const has = async () => (await environments.usage()).map(({ repo_url: url }) => url.slice(-1)).toSorted();
  await kept(ours);
  await kept(theirs);
  expect(await has()).toEqual(["a", "b"]);
  await give(environments, ours);
  await environments.idle();
  await kept("cccccccccccc");
  expect(await has()).toEqual(["a", "c"]);
  const large = await places({ "node_modules/a": text.repeat(4) });
  expect(await keep(environments, large, ["node_modules"], "dddddddddddd")).toEqual([
    expect.stringMatching(/more than SERVICE_ENV_CACHE_BYTES/),
  ]);
  expect(await has()).toEqual(["a", "c"]);
});

test("without room on the disk nothing is copied, and nothing half is left", async () => {
  const full = await open({ requireRoom: async () => await Promise.reject(new Error("The disk is full")) });
  const from = await places({ "node_modules/a": "1\n" });
  await expect(keep(full, from)).rejects.toThrow("The disk is full");
  expect(await readdir(full.root).catch(() => [])).toEqual([]);
});

test("a kill while an entry is copied leaves nothing that a job gets, and the next start removes it", async () => {
  const root = join(await temporaryDirectory(), "environments");
  const from = await places();
  await mkdir(join(from.worktree, "node_modules"));
  for (let nth = 0; nth < 3000; nth += 1) await writeFile(join(from.worktree, `node_modules/${nth}`), "x");
  const program = `
    import { createEnvironments } from ${JSON.stringify(join(import.meta.dirname, "environments.ts"))};
    const signal = new AbortController().signal;
    const environments = createEnvironments({
      root: ${JSON.stringify(root)}, maxBytes: 1e9, log: console, signal, mark: ${JSON.stringify(root)}, requireRoom: async () => undefined,
    });
    await environments.keep("${ours}", ${JSON.stringify({ ...name, repoUrl: "x", paths: ["node_modules"] })}, {
      from: ${JSON.stringify(from)}, signal, search: () => new Promise(() => setInterval(() => undefined, 1000)),
    });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "ignore" });
  await until(async () => (await readdir(root).catch(() => [])).length > 0, { what: "a copy to begin" });
  child.kill("SIGKILL");
  await new Promise((resolve) => child.once("exit", resolve));
  const environments = await open({ root });
  expect(await give(environments)).toMatchObject({ cache: "cold" });
  // As a start does.
  await killOrphans(null, instanceMarker(root), { graceSeconds: 0 });
  await environments.start();
  expect(await readdir(root)).toEqual([]);
  expect(await keep(environments, from)).toEqual([]);
  expect(await give(environments)).toMatchObject({ cache: "warm" });
});

const setup: Setup = {
  run: ["npm ci"],
  services: [],
  each: [],
  cache: { key: ["lock"], paths: ["node_modules"] },
  timeout: 60,
  goesOnFailed: false,
  env: {},
  withheld: {},
  hosts: [],
  asked: [],
  versions: {},
};

const ended = (over: Partial<Ended> = {}): Ended => ({ exit_code: 0, log: "", failure: null, ...over });

/** Jobs of one repository, whose setups are `commands`. */
const jobs = async (environments: Environments, seconds = 60) => {
  const repos = {
    fileAtBase: async () => "lock",
    keepApart: async () => undefined,
    pathsAtBase: async () => [],
  };
  const warm = createWarm({ repos, environments, ownHome: null });
  const told: string[] = [];
  const job = async (commands: (worktree: string) => Promise<Ended>) => {
    const { worktree: path, home } = await places();
    const said: string[] = [];
    const made = await warm.make(
      setup,
      {
        run: {
          warn: (text) => said.push(text),
          event: (event) => told.push(JSON.stringify(event)),
          signal: never,
        },
        worktree: { path, ownDir: dirname(home), repoKey: ours, repoUrl: "https://host/a" } as Worktree,
        isUntouched: true,
        branch: "",
        search: async () => undefined,
        reach: [],
      },
      { programs: "", seconds, commands: () => commands(path) },
    );
    return { ...made, path, said };
  };
  return { job, told };
};

test("of twelve jobs that want the same at once one runs the setup, and the others get what it made", async () => {
  const environments = await open();
  const { job, told } = await jobs(environments);
  let runs = 0;
  const run = async (path: string): Promise<Ended> => {
    runs += 1;
    await until(() => told.length === 11);
    await write(path, { "node_modules/a": "1\n" });
    return ended();
  };
  const done = await Promise.all(Array.from({ length: 12 }, () => job(run)));
  expect(runs).toBe(1);
  expect(done.map(({ cache }) => cache).toSorted()).toEqual([
    "cold",
    ...Array.from({ length: 11 }, () => "warm"),
  ]);
  expect(new Set(told)).toEqual(
    new Set([JSON.stringify({ type: "setup", text: "Waits for the same setup of another job\n" })]),
  );
  for (const { path, cache, said, waited_seconds: waited } of done) {
    expect({ said, waits: waited > 0 }).toEqual({ said: [], waits: cache === "warm" });
    expect(await readFile(join(path, "node_modules/a"), "utf8")).toBe("1\n");
  }
});

test("when a setup fails, the next that waits runs it; what the failed one left is given to nobody", async () => {
  const environments = await open();
  const { job } = await jobs(environments);
  const failure = { sentence: "It failed", retryable: true, isFinal: false };
  const first = job(async (path) => {
    await write(path, { "node_modules/half": "1\n" });
    return ended({ exit_code: 1, failure });
  });
  const second = first.then(() =>
    job(async (path) => {
      await write(path, { "node_modules/a": "1\n" });
      return ended();
    }),
  );
  expect((await first).cache).toBe("cold");
  const { cache, path } = await second;
  expect({ cache, has: await readdir(join(path, "node_modules")) }).toEqual({ cache: "cold", has: ["a"] });
  expect((await job(async () => ended({ failure }))).cache).toBe("warm");
});

test("who waits longer than its setup may take runs it alone, and keeps nothing", async () => {
  const environments = await open();
  const release = Promise.withResolvers<void>();
  const slow = (await jobs(environments)).job(async (path) => {
    await release.promise;
    await write(path, { "node_modules/a": "1\n" });
    return ended();
  });
  const { job } = await jobs(environments, 0.2);
  expect(await job(async () => ended())).toMatchObject({ cache: "cold", exit_code: 0 });
  release.resolve();
  await slow;
  expect(await job(async () => ended())).toMatchObject({ cache: "warm", exit_code: null });
});
