import { join } from "node:path";
import { cleanUp } from "../cleanup.ts";
import { startRedis } from "../redis.ts";
import { instanceRounds } from "./instance-rounds.ts";
import { newTally, type InstanceTally } from "./instance-tally.ts";

type Options = {
  directory: string;
  rounds: number;
  random: () => number;
  onRound: (round: number, tally: InstanceTally) => void;
};

/** Seconds; an instance's lease by default, and a shorter one with which more is met. */
const leases = { byDefault: undefined, short: "3" };

/** Groups of instances that are crashed side by side: those with the default lease wait most of the time. */
const worlds = [leases.byDefault, leases.short] as const;

/** For the program: many kills, in groups side by side on one Redis. Worktrees of one group go soon after their job. */
export const instanceCrashes = async ({ directory, rounds, random, onRound }: Options) => {
  const tallies = worlds.map(newTally);
  const redis = await startRedis({ directory: join(directory, "redis") });
  try {
    await Promise.all(
      worlds.map(async (lease, at) => {
        const prefix = lease === undefined ? "default" : "short";
        await instanceRounds({
          directory: join(directory, prefix),
          kvUrl: redis.url,
          prefix,
          kills: Math.ceil(rounds / worlds.length),
          env: {
            ...(lease !== undefined && { SERVICE_WORKTREE_TTL: "5" }),
            SERVICE_INSTANCE_LEASE: lease,
          },
          random,
          tally: tallies[at] ?? newTally(),
          onKill: () =>
            onRound(
              sum(tallies, ({ kills }) => kills),
              { ...newTally(), faults: tallies.flatMap(({ faults }) => faults) },
            ),
        });
      }),
    );
  } finally {
    await cleanUp();
  }
  return {
    "lease of 10 s, the default": tallies[0],
    "lease of 3 s": tallies[1],
    faults: tallies.flatMap(({ faults }) => faults),
  };
};

const sum = (tallies: InstanceTally[], of: (tally: InstanceTally) => number): number =>
  tallies.reduce((total, tally) => total + of(tally), 0);
