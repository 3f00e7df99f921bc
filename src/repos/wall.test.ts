import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { programFiles } from "../lib/process/program-files.ts";
import { until } from "../../test/until.ts";
import { attack, waysThatWork } from "./attacks.fixture.ts";
import { runGit, withRealRoots, type GitContext } from "./git-context.ts";
import { openWorktree } from "./open-worktree.ts";
import { never, plainGit, read } from "./plain-git.fixture.ts";
import { addTo, makeWorktree } from "./repos.fixture.ts";
import { createTokens } from "./tokens.ts";
import { viewOf } from "./wall.ts";
import { type WallMode, walls } from "./wall.fixture.ts";

const modes = ["bwrap", "landlock"] as const;
const secretProxy = "http://user:canary@127.0.0.1:1";

const withWall = async (mode: WallMode) => {
  const env = { ...process.env, HTTPS_PROXY: secretProxy, SSH_AUTH_SOCK: "/canary", TZ: "UTC" };
  const made = await makeWorktree({ "README.md": "hello\n" }, { env, confine: walls[mode] });
  const context: GitContext = {
    settings: withRealRoots(made.settings),
    env,
    tokens: createTokens(made.settings, () => undefined),
    confine: walls[mode],
    programs: programFiles(["git"], String(process.env["PATH"])).then(({ readable }) => readable),
    checked: new Set(),
    onLost: () => undefined,
    signal: never,
  };
  return { ...made, context };
};

/** Everything that the service does with a worktree. */
const wholeLook = async ({ repos, worktree }: Awaited<ReturnType<typeof makeWorktree>>) => {
  const { repoUrl, worktreeId, path } = worktree;
  const where = { repoUrl, worktreeId, base: null, format: "patch", maxBytes: 1e6, signal: never } as const;
  await repos.diff({ ...where, head: null });
  await repos.inspect(worktree, never);
  await repos.salvage(worktree, "job", never);
  await repos.isPushed(worktree, never);
  const tip = await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  await repos.checkOutCommit(worktree, { commit: String(worktree.baseSha), tip }, never);
  expect(await plainGit(repoUrl, "show", "service/one:work.dat")).toBe("work");
  expect(await read(path, "README.md")).toBe("hello\n");
};

test.each([...modes, "off"] as const)(
  "nothing that an agent plants is run by all that the service does with its worktree: %s",
  async (mode) => {
    const made = await withWall(mode);
    const { outside, inside } = await attack(made.worktree);
    await wholeLook(made);
    expect(await outside()).toEqual([]);
    expect(await inside()).toEqual({});
  },
);

/** As the service does not: gives git the repositories in the worktree. Some make it fail. */
const addAll = async (
  { context, worktree }: Awaited<ReturnType<typeof withWall>>,
  repositories: string[],
) => {
  const { agent } = await openWorktree(context, worktree);
  const tree = { ...worktree, index: join(agent.dir, "index") };
  for (const name of repositories) await runGit(context, tree, ["add", "--", name]).catch(() => undefined);
};

const sleepers = (): string[] =>
  readdirSync("/proc").filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8") === ["sleep", "1000", ""].join("\0");
    } catch {
      return false;
    }
  });

test("without the wall git obeys the repositories in a worktree outside of every sandbox", async () => {
  const before = sleepers();
  const made = await withWall("off");
  const { outside, inside, changed, repositories } = await attack(made.worktree);
  await addAll(made, repositories);
  expect(new Set(await outside())).toEqual(new Set(waysThatWork));
  expect(await changed()).toEqual([made.worktree.ownDir, made.worktree.cacheDir]);
  const { environment, read: stolen } = await inside();
  expect(stolen).toBe("canary\n");
  expect(environment).not.toContain("canary");
  for (const pid of sleepers()) if (!before.includes(pid)) process.kill(Number(pid), "SIGKILL");
});

test.each(modes)(
  "what git starts behind the wall reads, writes and reaches nothing outside, and ends with git: %s",
  async (mode) => {
    const before = sleepers();
    const made = await withWall(mode);
    const { outside, inside, changed, repositories } = await attack(made.worktree);
    await addAll(made, repositories);
    expect([...(await outside()), ...(await changed())]).toEqual([]);
    const { ran, environment = "", ...rest } = await inside();
    expect(new Set(ran?.trim().split("\n"))).toEqual(new Set(waysThatWork));
    delete rest["setsid"];
    // `environ` and `read` are empty: the redirections made them.
    expect(rest).toEqual({ environ: "", read: "", socket: "" });
    expect(environment).not.toMatch(/canary|SSH_AUTH_SOCK|PROXY/i);
    expect(environment).toMatch(/^TZ=UTC$/m);
    await until(() => sleepers().every((pid) => before.includes(pid)));
  },
);

test("behind the wall git writes the worktree and its scratch, and reads its own directory and what that borrows", () => {
  const tree = { path: "/w/one/sub", root: "/w/one", ownDir: "/w/.owned/one.git" };
  const borrowed = ["/r/a/repo.git/objects", "/w/one/.git/modules/x/objects"];
  expect(viewOf(tree, { borrowed, programs: ["/opt/git"] })).toEqual({
    readable: ["/w/.owned/one.git", "/r/a/repo.git/objects", "/opt/git"],
    writable: ["/w/one", "/w/.owned/one.git/scratch"],
    cwd: "/w/one/sub",
    limits: { memoryBytes: null, processes: null },
  });
});

test.each(modes)("git and what it starts have the memory that the run may have: %s", async (mode) => {
  const { context, worktree } = await withWall(mode);
  await openWorktree(context, worktree);
  const config = [["alias.fill", `!perl -e 'my $x = "a" x 300_000_000; print length $x'`]] as const;
  const fill = (memoryBytes: number | null) =>
    runGit(context, { ...worktree, limits: { memoryBytes, processes: null } }, ["fill"], { config });
  expect((await fill(null)).stdout).toBe("300000000");
  await expect(fill(100_000_000)).rejects.toThrow(/^git fill /);
});

test("a worktree's limits are those of the run that works in it last", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  const limits = { memoryBytes: 5e8, processes: 50 };
  const wanted = { submodules: false, lfs: false, limits };
  const again = await addTo(repos, repo, "one", { wanted });
  expect(again.limits).toEqual(limits);
  expect((await repos.findWorktree(worktree.worktreeId))?.limits).toEqual(limits);
});
