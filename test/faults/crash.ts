import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crashRounds } from "./crash-rounds.ts";

/** `npm run crash -- 200`: kills the service that many times at random moments and prints the tally. */
const rounds = Number(process.argv[2] ?? 200);
const directory = await mkdtemp(join(tmpdir(), "svc-crash-"));
const tally = await crashRounds({
  directory,
  rounds,
  random: Math.random,
  onRound: (round, { faults }) => {
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
