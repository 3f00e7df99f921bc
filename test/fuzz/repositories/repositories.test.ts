import { expect, test } from "vitest";
import { RepoError } from "../../../src/repos/repos.ts";
import { temporaryDirectory } from "../../temporary.ts";
import { fateOf } from "./evidence.ts";
import { fuzzRepositories } from "./fuzz-repositories.ts";
import { chooseRound, plants } from "./round.ts";
import { canaries } from "./trap.ts";
import { createWitness } from "./witness.ts";
import { works } from "./works.ts";

const count = 2;

test.each(["bwrap", "landlock", "off"] as const)(
  `in ${count} rounds nothing that an agent plants runs outside the wall, and no work is lost: %s`,
  async (mode) => {
    const tally = await fuzzRepositories({ directory: await temporaryDirectory(), mode, count, seed: 458 });
    expect(tally.faults).toEqual([]);
    expect(tally.asked).toBe(count);
    expect(tally.fates.saved).toBeGreaterThan(tally.fates.kept);
    expect(tally.ranInside > 0).toBe(mode !== "off");
    expect(Object.keys(tally.answers)).toEqual(
      expect.arrayContaining(["diff ok", "salvage ok", "commitAll ok", "push ok", "addWorktree two ok"]),
    );
  },
);

test("a seed and a number give the same round, and 5,000 of them every work and plant", () => {
  const rounds = Array.from({ length: 5000 }, (_, number) => chooseRound(1, number));
  expect(chooseRound(1, 4711)).toEqual(rounds[4711]);
  const kinds = rounds.flatMap((round) => [...round.works, ...round.plants].map(({ kind }) => kind));
  expect(new Set(kinds)).toEqual(new Set([...works.keys(), ...plants.keys()]));
});

test("work is lost that is neither saved nor in a directory that is kept because of it", async () => {
  const path = await temporaryDirectory();
  const evidence = { is: "kept", path: "vendor/x" } as const;
  const saved = { trees: [], commits: new Set<string>() };
  const fate = (...kept: string[]) => fateOf(evidence, { saved, kept, directory: { path, gitDir: path } });
  expect(await fate()).toBe("lost");
  expect(await fate("nested repository at vendor/y")).toBe("lost");
  // It is named, but not there.
  expect(await fate("nested repository at vendor/x")).toBe("lost");
  const commit = { is: "commit", id: "1" } as const;
  const judged = (kept: string[]) => fateOf(commit, { saved, kept, directory: { path, gitDir: path } });
  expect(await judged(["nested repository at vendor/x"])).toBe("lost");
  expect(await judged(["git cannot take what is in it (…)"])).toBe("kept");
});

test("a call that ends otherwise than with a sentence of the service's, or gives away a secret, is a fault", async () => {
  const witness = createWitness();
  await witness.call("push", async () => Promise.reject(new RepoError("push_failed", "no")));
  expect(witness.faults).toEqual([]);
  await witness.call("push", async () => Promise.reject(new TypeError("x is undefined")));
  await witness.call("diff", async () => ({ text: `+${canaries.file}` }));
  expect(witness.faults).toEqual([
    expect.stringMatching(/^push throws TypeError: x is undefined/),
    `diff gives away ${canaries.file}`,
  ]);
});
