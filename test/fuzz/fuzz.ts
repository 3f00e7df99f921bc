import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cleanUp } from "../cleanup.ts";
import { fuzzDoor } from "./door.ts";
import { fuzz } from "./rounds.ts";

/**
 * `npm run fuzz -- [REQUESTS] [SEED[:NUMBER]]`: asks the service so many spoilt requests over all its doors and prints the
 * tally. With a number it begins at that one: `npm run fuzz -- 1 5:81` repeats what a tally calls `5:81`. With `door` as the
 * last word it asks the door of a sandbox instead; with `bwrap`, `landlock` or `off` it plays rounds of an agent that plants
 * things in a repository, behind the wall of that mode.
 */
const targets = ["door", "bwrap", "landlock", "off"] as const;
const words = process.argv.slice(2);
const target = targets.find((each) => each === words.at(-1)) ?? "service";
const [count = "100000", start = String(Date.now() % 1_000_000)] =
  target === "service" ? words : words.slice(0, -1);
const [seed, from = "0"] = start.split(":");
if (![count, seed, from].every((each) => /^\d+$/.test(each ?? ""))) {
  process.stderr.write("usage: npm run fuzz -- [REQUESTS] [SEED[:NUMBER]] [door|bwrap|landlock|off]\n");
  process.exit(2);
}
const directory = await realpath(await mkdtemp(join(tmpdir(), "svc-fuzz-")));
let shown = 0;
const asked = {
  count: Number(count),
  seed: Number(seed),
  from: Number(from),
  onBatch: ({ asked: so, faults }: { asked: number; faults: string[] }) => {
    process.stdout.write(`${so} asked, ${faults.length} kinds of faults\n`);
    for (const fault of faults.slice(shown)) process.stdout.write(`${fault}\n`);
    shown = faults.length;
  },
};
const run = async () => {
  if (target === "service") return fuzz({ directory, ...asked });
  if (target === "door") return fuzzDoor(asked);
  const { fuzzRepositories } = await import("./repositories/fuzz-repositories.ts");
  return fuzzRepositories({ directory, mode: target, ...asked });
};
const tally = await run();
await cleanUp();
await rm(directory, { recursive: true, force: true });
process.stdout.write(`${JSON.stringify(tally, null, 2)}\n`);
process.exitCode = tally.faults.length > 0 ? 1 : 0;
