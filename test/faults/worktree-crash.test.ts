import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { worktreeRounds } from "./worktree-rounds.ts";

const rounds = 1;

test("whenever the service is killed while worktrees are prepared and removed, all is brought to its end and no work is lost", async () => {
  const tally = await worktreeRounds({
    directory: await temporaryDirectory(),
    rounds,
    random: Math.random,
  });
  expect(tally.faults).toEqual([]);
  expect(tally.kills).toBe(rounds);
});
