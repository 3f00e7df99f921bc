import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanUp } from "../cleanup.ts";
import { fuzzDoor } from "./door.ts";
import { fuzz } from "./rounds.ts";

/**
 * `npm run fuzz -- [REQUESTS] [SEED[:NUMBER]]`: asks the service so many spoilt requests over all its doors and prints the
 * tally. With a number it begins at that one: `npm run fuzz -- 1 5:81` repeats what a tally calls `5:81`. With `door` as the
 * last word it asks the door of a sandbox instead.
 */
const words = process.argv.slice(2);
const isDoor = words.at(-1) === "door";
const [count = "100000", start = String(Date.now() % 1_000_000)] = isDoor ? words.slice(0, -1) : words;
const [seed, from = "0"] = start.split(":");
if (![count, seed, from].every((each) => /^\d+$/.test(each ?? ""))) {
  process.stderr.write("usage: npm run fuzz -- [REQUESTS] [SEED[:NUMBER]] [door]\n");
  process.exit(2);
}
const directory = await mkdtemp(join(tmpdir(), "svc-fuzz-"));
const asked = {
  count: Number(count),
  seed: Number(seed),
  from: Number(from),
  onBatch: (so: { asked: number; faults: string[] }) =>
    void process.stdout.write(`${so.asked} asked, ${so.faults.length} kinds of faults\n`),
};
const tally = isDoor ? await fuzzDoor(asked) : await fuzz({ directory, ...asked });
await cleanUp();
await rm(directory, { recursive: true, force: true });
process.stdout.write(`${JSON.stringify(tally, null, 2)}\n`);
process.exitCode = tally.faults.length > 0 ? 1 : 0;
