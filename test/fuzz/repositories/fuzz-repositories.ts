import { removeTree } from "../../../src/lib/remove-tree.ts";
import type { WallMode } from "../../../src/repos/wall.fixture.ts";
import { createStock } from "./place.ts";
import { play, type Played } from "./play.ts";
import { chooseRound } from "./round.ts";

export type RepositoriesTally = {
  seed: number;
  mode: WallMode;
  asked: number;
  /** By call and what came of it. */
  answers: Record<string, number>;
  /** What the service said in the first of each kind. */
  refusals: Record<string, string>;
  /** Pieces of honest work. */
  fates: Played["fates"];
  /** Reasons for which worktrees were kept. */
  kept: Record<string, number>;
  /** Works and plants of all rounds, by kind; and those that others made impossible. */
  kinds: number;
  inVain: Record<string, number>;
  /** Programs that ran behind the wall. */
  ranInside: number;
  /** Of one call, ms. */
  slowest: number;
  faults: string[];
};

type Options = {
  /** An empty directory. */
  directory: string;
  mode: WallMode;
  count: number;
  seed: number;
  /** Number of the first round. */
  from?: number;
  onBatch?: (tally: RepositoriesTally) => void;
};

const batch = 20;

/**
 * Plays so many rounds: an agent works honestly in a worktree and plants what it can think of; the service then looks at the
 * worktree, saves, pushes and removes it. Nothing of the agent's may run outside the wall, no work may be lost.
 */
export const fuzzRepositories = async (options: Options): Promise<RepositoriesTally> => {
  const { directory, mode, count, seed, from = 0, onBatch = () => undefined } = options;
  const tally: RepositoriesTally = {
    seed,
    mode,
    asked: 0,
    answers: {},
    refusals: {},
    fates: { saved: 0, kept: 0 },
    kept: {},
    kinds: 0,
    inVain: {},
    ranInside: 0,
    slowest: 0,
    faults: [],
  };
  const stock = createStock(directory, mode);
  const kinds = new Set<string>();
  for (let number = from; number < from + count; number += 1) {
    const round = chooseRound(seed, number);
    const played = await play(stock, round, mode);
    for (const { kind } of [...round.works, ...round.plants]) kinds.add(kind);
    tally.kinds = kinds.size;
    add(tally, played, `${seed}:${number}`);
    if (tally.asked % batch === 0) onBatch(tally);
  }
  await removeTree(directory);
  return tally;
};

const add = (tally: RepositoriesTally, played: Played, label: string): void => {
  tally.asked += 1;
  tally.fates.saved += played.fates.saved;
  tally.fates.kept += played.fates.kept;
  tally.ranInside += played.ranInside;
  tally.slowest = Math.max(tally.slowest, played.slowest);
  countIn(tally.answers, played.answers);
  for (const [kind, said] of Object.entries(played.refusals)) tally.refusals[kind] ??= `${label} ${said}`;
  for (const each of played.inVain) countIn(tally.inVain, { [each]: 1 });
  for (const each of played.kept) countIn(tally.kept, { [each]: 1 });
  if (tally.faults.length < 100) tally.faults.push(...played.faults.map((fault) => `${label} ${fault}`));
};

const countIn = (counts: Record<string, number>, more: Record<string, number>): void => {
  for (const [name, count] of Object.entries(more)) counts[name] = (counts[name] ?? 0) + count;
};
