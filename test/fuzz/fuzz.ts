import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanUp } from "../cleanup.ts";
import { fuzz } from "./rounds.ts";

/**
 * `npm run fuzz -- [REQUESTS] [SEED[:NUMBER]]`: asks the service so many spoilt requests over all its doors and prints the
 * tally. With a number it begins at that one: `npm run fuzz -- 1 5:81` repeats what a tally calls `5:81`.
 */
const [count = "100000", start = String(Date.now() % 1_000_000)] = process.argv.slice(2);
const [seed, from = "0"] = start.split(":");
if (![count, seed, from].every((each) => /^\d+$/.test(each ?? ""))) {
  process.stderr.write("usage: npm run fuzz -- [REQUESTS] [SEED[:NUMBER]]\n");
  process.exit(2);
}
const directory = await mkdtemp(join(tmpdir(), "svc-fuzz-"));
const tally = await fuzz({
  directory,
  count: Number(count),
  seed: Number(seed),
  from: Number(from),
  onBatch: ({ asked, faults }) => process.stdout.write(`${asked} asked, ${faults.length} kinds of faults\n`),
});
await cleanUp();
await rm(directory, { recursive: true, force: true });
process.stdout.write(`${JSON.stringify(tally, null, 2)}\n`);
process.exitCode = tally.faults.length > 0 ? 1 : 0;
