import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { worktreeRounds } from "./worktree-rounds.ts";

test("whenever the service is killed while worktrees are prepared and removed, all is brought to its end and no work is lost", async () => {
  const tally = await worktreeRounds({
    directory: await temporaryDirectory(),
    rounds: 6,
    random: Math.random,
  });
  expect(tally.faults).toEqual([]);
  expect(tally.kills).toBe(6);
}, 120_000);
