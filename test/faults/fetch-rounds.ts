import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, statfs, writeFile } from "node:fs/promises";
import { createServer, connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { startFakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { git, makeRemoteIn } from "../remote.ts";
import { spawnService, type Service } from "../service-process.ts";

type Options = {
  /** Directory to work in. */
  directory: string;
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** Told after each round, for a program that shows progress. */
  onRound?: (round: number, tally: FetchTally) => void;
};

export type FetchTally = {
  /** Fetches that failed, of a clone that was there and of one that was not; those that came through all the same. */
  failed: { clone: number; update: number };
  whole: number;
  faults: string[];
};

/** What breaks fetches of one repository. */
type Breaker = {
  env: Record<string, string>;
  /** The repository as it is submitted, and its directory. */
  url: string;
  remote: string;
  /** Until `heal`, what is fetched breaks at some point of its first `bytes`. */
  breakAt: (bytes: number) => Promise<unknown>;
  heal: () => Promise<unknown>;
  /** Bytes that came from the remote so far; null: not counted. */
  received: () => number | null;
  close: () => Promise<unknown>;
};

/** What a commit of a round adds, bytes that do not compress, in more files than git unpacks one by one. */
const added = 120_000;
const files = 120;

/**
 * Each round adds a commit to the remote and breaks the fetch of it. Then every ref of the cached clone is as it was, git
 * finds it whole, no part of a pack is left, and the next fetch succeeds and brings what is due, not all again.
 */
const fetchRounds = async (
  { directory, rounds, random, onRound }: Options,
  breaker: Breaker,
): Promise<FetchTally> => {
  const tally: FetchTally = { failed: { clone: 0, update: 0 }, whole: 0, faults: [] };
  const reposRoot = join(directory, "repos");
  const env = {
    SERVICE_REPOS_ROOT: reposRoot,
    SERVICE_MIN_FREE_DISK_BYTES: "0",
    SERVICE_LOG_LEVEL: "warn",
    ...breaker.env,
  };
  const work = join(directory, "committer");
  await git(directory, "clone", "--quiet", breaker.remote, work);
  const service = await spawnService({ home: directory, env });
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const scene = { reposRoot, breaker, service, tally, fault: faultOf(tally, round) };
      // Every fifth begins without a clone.
      if (round % 5 === 1)
        for (const { key } of await clonesIn(reposRoot)) await rm(join(reposRoot, key), { recursive: true });
      const tip = await commitTo(work, breaker.remote, round);
      await fetchTwice(scene, { tip, bytes: random() * 1.3 * added });
      for (const { worktree_id: paths } of (await service.client.list_worktrees()).worktrees)
        await service.client.cleanup_worktrees({ paths, force: true });
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
    await breaker.close();
  }
  return tally;
};

type Scene = {
  reposRoot: string;
  breaker: Breaker;
  service: Service;
  tally: FetchTally;
  fault: (text: string) => void;
};

const faultOf =
  ({ faults }: FetchTally, round: number) =>
  (text: string): void =>
    void faults.push(`round ${round}: ${text}`);

const commitTo = async (work: string, remote: string, round: number): Promise<string> => {
  for (let file = 0; file < files; file += 1)
    await writeFile(join(work, `${file}.bin`), randomBytes(added / files));
  await git(work, "add", "--all");
  await git(work, "commit", "--quiet", "--message", `Round ${round}`);
  await git(work, "push", "--quiet", remote, "HEAD:refs/heads/main");
  return await git(work, "rev-parse", "HEAD");
};

/** Breaks a fetch after so many bytes, and lets the next one through. */
const fetchTwice = async (scene: Scene, { tip, bytes }: { tip: string; bytes: number }): Promise<void> => {
  const { reposRoot, breaker, service, fault } = scene;
  const before = await stateOf(reposRoot);
  const offset = breaker.received() ?? 0;
  await breaker.breakAt(bytes);
  await checkBroken(scene, before, await prepare(service, breaker.url));
  const next = await prepare(service, breaker.url);
  if (next !== null) fault(`the next fetch failed too: ${next}`);
  // What is due at most twice, by the broken one and by the next, and what is said around it.
  const brought = (breaker.received() ?? 0) - offset;
  if (before.refs !== null && brought > added * 2.5 + 50_000)
    fault(`${brought} bytes were brought where ${added} were due`);
  const { refs, parts } = await stateOf(reposRoot);
  if (refs?.includes(`${tip} commit\trefs/remotes/origin/main`) !== true)
    fault(`main is not at ${tip}: ${refs}`);
  for (const text of parts) fault(text);
  if (service.output.stderr.includes("was damaged")) fault(service.output.stderr);
};

const checkBroken = async (
  { reposRoot, breaker, tally, fault }: Scene,
  before: State,
  failure: string | null,
): Promise<void> => {
  const left = await stateOf(reposRoot);
  if (failure === null) tally.whole += 1;
  else tally.failed[before.refs === null ? "clone" : "update"] += 1;
  if (failure !== null && left.refs !== before.refs)
    fault(`refs were ${before.refs} and are ${left.refs} after: ${failure}`);
  await breaker.heal();
  for (const text of [...left.parts, ...(await damageOf(reposRoot))]) fault(text);
};

/** Why the repository could not be fetched and checked out; null: it was. */
const prepare = async ({ client }: Service, repo_url: string): Promise<string | null> => {
  try {
    const { worktree } = await client.prepare_worktree({ repo_url, base_ref: "main" });
    if (worktree.status !== "ready") return worktree.error ?? worktree.status;
    return null;
  } catch (error) {
    return String(error);
  }
};

const clonesIn = async (reposRoot: string): Promise<{ key: string; gitDir: string }[]> => {
  const names = await readdir(reposRoot).catch(() => []);
  return names
    .map((key) => ({ key, gitDir: join(reposRoot, key, "repo.git") }))
    .filter(({ gitDir }) => existsSync(gitDir));
};

/** `refs`: those that were fetched, null: no clone; `parts`: what a fetch left behind. */
type State = { refs: string | null; parts: string[] };

const stateOf = async (reposRoot: string): Promise<State> => {
  const files = await readdir(reposRoot, { recursive: true }).catch(() => []);
  const parts = files.filter(
    (path) => /(^|\/)(tmp_|clone-)|\.lock$/.test(path) && !/(^|\/)\.lock$/.test(path),
  );
  const [clone] = await clonesIn(reposRoot);
  const refs =
    clone === undefined ? null : await git(clone.gitDir, "for-each-ref", "refs/remotes", "refs/tags");
  return { refs, parts: parts.map((path) => `${path} is left`) };
};

const damageOf = async (reposRoot: string): Promise<string[]> => {
  const found: string[] = [];
  for (const { gitDir } of await clonesIn(reposRoot))
    await git(gitDir, "fsck", "--no-dangling").catch((error: unknown) => found.push(String(error)));
  return found;
};

/** The connection to the git host ends in the middle of what it sends, once or until it is healed. */
export const cutRounds = async (options: Options): Promise<FetchTally> => {
  const host = await startFakeGitHost();
  const { directory } = await host.createRepository("acme", "app");
  const [, port] = host.host.split(":");
  let left = Infinity;
  let isOnce = false;
  let received = 0;
  const relay = createServer((client) => {
    const server = connect(Number(port), "127.0.0.1");
    const end = (): void => {
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.on("error", end).on("close", end);
    client.pipe(server);
    server.on("data", (data) => {
      received += data.length;
      left -= data.length;
      client.write(left < 0 ? data.subarray(0, Math.max(0, data.length + left)) : data);
      if (left >= 0) return;
      client.end(end);
      if (isOnce) left = Infinity;
    });
  }).listen(0, "127.0.0.1");
  await once(relay, "listening");
  const { port: relayPort } = relay.address() as AddressInfo;
  return await fetchRounds(options, {
    env: { ...host.environment, GIT_HOST: `localhost:${relayPort}` },
    url: `https://localhost:${relayPort}/acme/app.git`,
    remote: directory,
    breakAt: async (bytes) => {
      left = bytes;
      isOnce = options.random() < 0.5;
    },
    heal: async () => (left = Infinity),
    received: () => received,
    close: async () => {
      relay.close();
      await host.close();
    },
  });
};

const run = promisify(execFile);

/** The disk of the cached clones, 64 MB of its own, is full. To be run in a mount namespace, which its end removes. */
export const fullDiskRounds = async (options: Options): Promise<FetchTally> => {
  const disk = join(options.directory, "repos");
  const filler = join(disk, "filler");
  await mkdir(disk);
  await run("mount", ["-t", "tmpfs", "-o", "size=64m", "none", disk]);
  const { path } = await makeRemoteIn(options.directory);
  return await fetchRounds(options, {
    env: {},
    url: path,
    remote: path,
    breakAt: async (bytes) => {
      const { bavail, bsize } = await statfs(disk);
      await run("fallocate", ["--length", String(Math.max(1, bavail * bsize - Math.floor(bytes))), filler]);
    },
    heal: () => rm(filler, { force: true }),
    received: () => null,
    close: () => run("umount", ["--lazy", disk]),
  });
};
