import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { cutRounds } from "./fetch-rounds.ts";
import { shallowRounds } from "./shallow-rounds.ts";

const rounds = 2;

test("wherever a fetch is cut off, every ref stays, no part of a pack is left, and the next fetch brings what is due", async () => {
  const tally = await cutRounds({ directory: await temporaryDirectory(), rounds, random: Math.random });
  expect(tally.faults).toEqual([]);
  expect(tally.whole + tally.failed.clone + tally.failed.update).toBe(rounds);
});

test("a fetch that is cut off in the middle of a pack and succeeds at its next try leaves no part either", async () => {
  // Cut off once, after 70 KB.
  const tally = await cutRounds({ directory: await temporaryDirectory(), rounds: 3, random: () => 0.45 });
  expect(tally).toEqual({ failed: { clone: 0, update: 0 }, whole: 3, faults: [] });
});

test("the same when the disk of the cached clones is full", async () => {
  const program = spawn(
    process.execPath,
    [join(import.meta.dirname, "crash.ts"), String(rounds), "full-disk"],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  const [output] = await Promise.all([text(program.stdout), once(program, "exit")]);
  expect(JSON.parse(output)).toMatchObject({ faults: [] });
  expect(program.exitCode).toBe(0);
});

test("work on history that an agent fetched cut off is pushed, saved or still there, as the record says", async () => {
  const tally = await shallowRounds({
    directory: await temporaryDirectory(),
    rounds: 2,
    random: Math.random,
  });
  expect(tally.faults).toEqual([]);
  expect(tally.jobs).toBeGreaterThan(0);
});
