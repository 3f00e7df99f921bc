import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crashRounds } from "./crash-rounds.ts";
import { cutRounds, fullDiskRounds } from "./fetch-rounds.ts";
import { instanceCrashes } from "./instance-crash.ts";
import { parkedRounds } from "./parked-rounds.ts";
import { shallowRounds } from "./shallow-rounds.ts";
import { storeCrashes } from "./store-crash.ts";
import { worktreeRounds } from "./worktree-rounds.ts";

/**
 * `npm run crash -- 200 [KIND]`: kills the service, or the store, that many times at random moments and prints the tally.
 * `cut`, `full-disk`, `shallow` break fetches instead of programs. `outage`: the store is away once, for so many seconds; `idempotency`: so many jobs are submitted, each twice at once.
 */
const [count = "200", kind = "jobs"] = process.argv.slice(2);
const kinds = new Map(
  Object.entries({
    jobs: crashRounds,
    worktrees: worktreeRounds,
    instances: instanceCrashes,
    parked: parkedRounds,
    "parked-real": (options: Parameters<typeof parkedRounds>[0]) =>
      parkedRounds({ ...options, isReal: true }),
    cut: cutRounds,
    "full-disk": fullDiskRounds,
    shallow: shallowRounds,
    ...storeCrashes,
  }),
);
const run = kinds.get(kind);
if (run === undefined || !/^[1-9]\d*$/.test(count)) {
  process.stderr.write(`usage: npm run crash -- [KILLS] [${[...kinds.keys()].join("|")}]\n`);
  process.exit(2);
}
// A disk of its own, which goes with the process: in a namespace, where everybody may mount one.
if (kind === "full-disk" && process.env["CRASH_NAMESPACE"] === undefined) {
  const user = process.getuid?.() === 0 ? [] : ["--map-root-user"];
  const { status, error } = spawnSync(
    "unshare",
    ["--mount", ...user, process.execPath, ...process.argv.slice(1)],
    { stdio: "inherit", env: { ...process.env, CRASH_NAMESPACE: "1" } },
  );
  if (error) throw error;
  process.exit(status ?? 1);
}
let told = 0;
const directory = await mkdtemp(join(tmpdir(), "svc-crash-"));
const tally = await run({
  directory,
  rounds: Number(count),
  random: Math.random,
  onRound: (round: number, { faults }: { faults: string[] }) => {
    for (const fault of faults.slice(told)) process.stdout.write(`after ${round} kills: ${fault}\n`);
    told = faults.length;
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
