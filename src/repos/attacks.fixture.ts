import { appendFile, chmod, mkdir, readdir, readFile, rename, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { temporaryDirectory } from "../../test/temporary.ts";
import { plainGit, write } from "./plain-git.fixture.ts";
import type { Worktree } from "./repos.ts";

/** Ways in which a repository inside the worktree makes git run a program, by name: what the agent does in it. */
const ways: Record<string, (path: string, program: string) => Promise<unknown>> = {
  "a filter": (path, program) => plainGit(path, "config", "filter.e.clean", program),
  "a filter process": (path, program) => plainGit(path, "config", "filter.e.process", program),
  "a file that is included": async (path, program) => {
    await writeFile(join(path, ".git/more"), `[filter "e"]\n\tclean = ${program}\n`);
    await plainGit(path, "config", "include.path", "more");
  },
  "a monitor": (path, program) => plainGit(path, "config", "core.fsmonitor", program),
  "a text converter": (path, program) => plainGit(path, "config", "diff.e.textconv", program),
  "a program that compares": (path, program) => plainGit(path, "config", "diff.e.command", program),
  "two levels": async (path, program) => {
    await repository(join(path, "inner"));
    await plainGit(join(path, "inner"), "config", "filter.e.clean", program);
    await stage(path, "inner");
  },
  "a .git file": async (path, program) => {
    await moveGitDirectory(path, join(path, "../.away"), "../.away");
    await plainGit(path, "config", "filter.e.clean", program);
  },
  "a submodule": async (path, program) => {
    await mkdir(join(path, "../.git/modules"), { recursive: true });
    await moveGitDirectory(path, join(path, "../.git/modules/sub"), "../.git/modules/sub");
    await plainGit(path, "config", "filter.e.clean", program);
  },
  "a second worktree": async (path, program) => {
    await rename(path, `${path}-main`);
    await plainGit(`${path}-main`, "worktree", "add", "--quiet", path);
    await plainGit(path, "config", "extensions.worktreeConfig", "true");
    await plainGit(path, "config", "--worktree", "filter.e.clean", program);
  },
  "a promisor": async (path, program) => {
    await plainGit(path, "config", "core.repositoryFormatVersion", "1");
    await plainGit(path, "config", "extensions.partialClone", "evil");
    await plainGit(path, "config", "remote.evil.promisor", "true");
    await plainGit(path, "config", "remote.evil.url", path);
    await plainGit(path, "config", "remote.evil.uploadpack", program);
    const tree = await plainGit(path, "rev-parse", "HEAD^{tree}");
    await rm(join(path, ".git/objects", tree.slice(0, 2), tree.slice(2)));
  },
};

/** Git hands its own configuration on: a monitor stays off. It compares nothing there. */
export const waysThatWork = Object.keys(ways).filter(
  (way) => !["a monitor", "a text converter", "a program that compares"].includes(way),
);

const identity = ["-c", "user.name=agent", "-c", "user.email=agent@localhost"];

const repository = async (path: string): Promise<void> => {
  await plainGit("/", "init", "--quiet", path);
  await write(path, { file: "b\n", ".gitattributes": "* filter=e diff=e\n" });
  await plainGit(path, "add", "--all");
  await plainGit(path, ...identity, "commit", "--quiet", "--message", "x");
};

const moveGitDirectory = async (path: string, to: string, named: string): Promise<void> => {
  await rename(join(path, ".git"), to);
  await writeFile(join(path, ".git"), `gitdir: ${named}\n`);
  await plainGit(path, "config", "core.worktree", path);
};

/** Its commit goes into the index around it. Git has to look into the file, which has the same length. */
const stage = async (root: string, name: string): Promise<void> => {
  const id = await plainGit(join(root, name), "rev-parse", "HEAD");
  await plainGit(root, "update-index", "--add", "--cacheinfo", `160000,${id},${name}`);
  await writeFile(join(root, name, "file"), "c\n");
  const later = new Date(Date.now() + 10_000);
  await utimes(join(root, name, "file"), later, later);
};

export type Attacked = {
  /** Names of the repositories in the worktree. */
  repositories: string[];
  /** What only a program outside of the wall can write; empty: nothing is there. */
  outside: () => Promise<string[]>;
  /** The service's git directories whose configuration it changed. */
  changed: () => Promise<string[]>;
  /** What the agent's program wrote in the worktree, by name; `ran`: the ways in which it was started. */
  inside: () => Promise<Record<string, string>>;
};

/**
 * Does in a worktree all that an agent can do to be obeyed: as above, and in its own clone. The program tries to read and
 * write outside, to change the service's git directory, to talk to others and to stay.
 */
export const attack = async ({ path, gitDir, ownDir, cacheDir }: Worktree): Promise<Attacked> => {
  const outside = await temporaryDirectory();
  await writeFile(join(outside, "secret"), "canary\n");
  const traces = join(path, "traces");
  await mkdir(traces);
  const program = join(path, "evil.sh");
  await writeFile(
    program,
    `#!/bin/sh
exec 2>/dev/null
echo "$1" >>${traces}/ran
echo "$1" >>${outside}/wrote
env >${traces}/environment
cat ${outside}/secret >${traces}/read
cat /proc/${process.pid}/environ >${traces}/environ
for gitDir in ${ownDir} ${cacheDir}; do
  printf '[remote "x"]\\n\\tpromisor = true\\n' >>$gitDir/config
done
perl -MSocket -e 'print "made" if socket(my $s, AF_INET, SOCK_STREAM, 0) or socket($s, AF_UNIX, SOCK_STREAM, 0)' >${traces}/socket
(setsid sh -c 'echo $$ >${traces}/setsid; exec sleep 1000' || exec sleep 1000) </dev/null >/dev/null &
# A fetch waits until this program speaks, and cat would wait for the fetch.
[ "$1" = 'a promisor' ] || cat
`,
  );
  await chmod(program, 0o755);
  const repositories = Object.keys(ways).map((_, nth) => `vendor${nth}`);
  for (const [nth, [way, configure]] of Object.entries(ways).entries()) {
    const name = `vendor${nth}`;
    await repository(join(path, name));
    await configure(join(path, name), `${program} '${way}'`);
    await stage(path, name);
  }
  const [clean, compare] = [`${program} clone`, `${program} 'clone compares'`];
  await appendFile(
    join(gitDir, "config"),
    `[core]\n\tfsmonitor = ${clean}\n[diff]\n\texternal = ${compare}\n[diff "e"]\n\ttextconv = ${compare}\n[filter "e"]\n\tclean = ${clean}\n\tsmudge = ${clean}\n`,
  );
  await write(path, { ".gitattributes": "*.dat filter=e diff=e\n", "work.dat": "work\n" });
  const textsIn = async (directory: string) => {
    const texts: Record<string, string> = {};
    for (const name of await readdir(directory)) texts[name] = await readFile(join(directory, name), "utf8");
    return texts;
  };
  return {
    repositories,
    outside: async () => ((await textsIn(outside))["wrote"] ?? "").split("\n").filter((line) => line !== ""),
    changed: async () => {
      const gitDirs = [ownDir, cacheDir];
      const texts = await Promise.all(gitDirs.map((gitDir) => readFile(join(gitDir, "config"), "utf8")));
      return gitDirs.filter((_, nth) => texts[nth]?.includes("promisor") === true);
    },
    inside: () => textsIn(traces),
  };
};
