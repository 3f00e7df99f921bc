import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "../../../src/lib/command.ts";
import { walls, type WallMode } from "../../../src/repos/wall.fixture.ts";
import type { Place } from "./place.ts";

/** Names of a repository in the worktree that comes and goes, and of its git directory meanwhile. */
export const racing = { name: "race", away: "away.git" };

/** What an agent does that is still at work: each step may come between two of the service's. */
const steps = `
my ($path, $git, $secret) = @ARGV;
while (1) {
  rename "$path/.git", "$path/away.git";
  symlink $secret, "$path/link";
  rename "$git/packed-refs", "$git/own-refs";
  symlink "$secret/packed-refs", "$git/packed-refs";
  rename "$git/own-refs", "$git/packed-refs";
  unlink "$path/link";
  mkdir "$path/link";
  rename "$path/away.git", "$path/.git";
  rmdir "$path/link";
  symlink "$secret/HEAD", "$git/refs/heads/race";
  unlink "$git/refs/heads/race";
  select undef, undef, undef, rand 0.01;
}`;

/** Does something while an agent is at work in the worktree, behind a wall of its own. */
export const againstAgent = async <Value>(
  { path, gitDir, secret }: Place,
  mode: WallMode,
  action: () => Promise<Value>,
): Promise<Value> => {
  const limits = { memoryBytes: null, processes: null };
  await using wall = await walls[mode]({ readable: [], writable: [path], cwd: path, limits });
  const ending = new AbortController();
  const at = join(path, racing.name);
  const agent = runCommand({
    command: "/usr/bin/perl",
    args: ["-e", steps, at, gitDir, secret.gitDir],
    cwd: path,
    env: { LC_ALL: "C" },
    timeoutSeconds: 300,
    signal: ending.signal,
    wall,
  }).catch(() => undefined);
  try {
    return await action();
  } finally {
    ending.abort();
    await agent;
    // The rest of the round is played with what was there.
    const back = (from: string, to: string) => rename(from, to).catch(() => undefined);
    await back(join(at, racing.away), join(at, ".git"));
    await back(join(gitDir, "own-refs"), join(gitDir, "packed-refs"));
    for (const left of [join(at, "link"), join(gitDir, "refs/heads/race")])
      await rm(left, { recursive: true, force: true }).catch(() => undefined);
  }
};
