import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crashRounds } from "./crash-rounds.ts";
import { worktreeRounds } from "./worktree-rounds.ts";

/** `npm run crash -- 200 [jobs|worktrees]`: kills the service that many times at random moments and prints the tally. */
const [count = "200", kind = "jobs"] = process.argv.slice(2);
const run = { jobs: crashRounds, worktrees: worktreeRounds }[kind];
if (run === undefined || !/^[1-9]\d*$/.test(count)) {
  process.stderr.write("usage: npm run crash -- [KILLS] [jobs|worktrees]\n");
  process.exit(2);
}
const directory = await mkdtemp(join(tmpdir(), "svc-crash-"));
const tally = await run({
  directory,
  rounds: Number(count),
  random: Math.random,
  onRound: (round: number, { faults }: { faults: string[] }) => {
    if (round % 10 === 0) process.stdout.write(`${round} kills, ${faults.length} faults\n`);
  },
});
process.stdout.write(`${JSON.stringify(tally, null, 2)}\n`);
if (tally.faults.length > 0) {
  process.stdout.write(`what is left for a look: ${directory}\n`);
  process.exitCode = 1;
} else {
  await rm(directory, { recursive: true, force: true });
}
