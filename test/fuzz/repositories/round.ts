import { chanceOf, pick, pickSome, type Chance } from "../chance.ts";
import { clonePlants, type Spoilt } from "./clone-plants.ts";
import { filePlants } from "./file-plants.ts";
import { bases, type Base, type Place } from "./place.ts";
import { programs } from "./programs.ts";
import { works } from "./works.ts";

type Chosen = { kind: string; name: string; variant: number };

/** What the service does with the worktree before its clean-up, in this order. */
const looks = [
  "diff",
  "inspect",
  "isPushed",
  "unsavable",
  "capture",
  "salvage",
  "saveBranch",
  "commitAll",
  "push",
] as const;

export type Look = (typeof looks)[number];

/** One round as plain data: the same for the same seed and number. */
export type Round = {
  seed: number;
  number: number;
  base: Base;
  works: Chosen[];
  plants: Chosen[];
  looks: Look[];
  /**
   * Gives git behind the wall the repositories that plants made, as the service does not, so that their programs run there.
   * `spoils`: the program then plants links in the scratch of git behind the wall.
   */
  obeys: "no" | "yes" | "spoils";
  /** Whether the next agent gets the worktree before it is removed. */
  renews: boolean;
};

type Plant = {
  rank: number;
  base?: Base;
  spoils?: readonly Spoilt[];
  put: (place: Place, own: { name: string; variant: number }) => Promise<unknown>;
};

/** Plants of all kinds by name. */
export const plants = new Map<string, Plant>([...programs, ...filePlants, ...clonePlants]);

/** Most plants of the last kind have the service refuse the clone, so that the others are not met any more. */
const kinds = [programs, programs, programs, filePlants, filePlants, clonePlants] as const;

/** Git obeys these whenever it looks into a file or for an object. */
const obeyed = /filter|promisor/;

const rankOf = ({ kind }: Chosen): number => (plants.get(kind) ?? works.get(kind))?.rank ?? 0;

const sorted = (chosen: Chosen[]): Chosen[] => chosen.toSorted((one, other) => rankOf(one) - rankOf(other));

/** As a job that ends well, as one that fails, or in any order. */
const chooseLooks = (chance: Chance): Look[] => {
  const usual: Look[] = ["diff", "inspect", "salvage", "commitAll", "inspect", "push", "isPushed"];
  const failed: Look[] = ["diff", "salvage", "unsavable"];
  const course = chance(3);
  return course === 0 ? usual : course === 1 ? failed : pickSome(chance, looks, 6);
};

const choosePlants = (chance: Chance, base: Base): Chosen[] => {
  const isSlow = (kind: string): boolean => filePlants.get(kind)?.isSlow === true;
  const choices = Array.from({ length: 1 + chance(6) }, () => {
    const from = pick(chance, kinds);
    const names = [...from.keys()].filter((kind) => (plants.get(kind)?.base ?? base) === base);
    const inSubmodules = names.filter((kind) => plants.get(kind)?.base === "submodules");
    const likely = names.filter((kind) => obeyed.test(kind));
    const preferred = [names, likely, likely, inSubmodules][chance(4)] ?? names;
    const kind = pick(chance, preferred.length > 0 ? preferred : names);
    // Git waits for these in each look.
    return isSlow(kind) && chance(3) > 0 ? "a pipe" : kind;
  });
  const replaced = choices.findIndex((kind) => clonePlants.get(kind)?.rank === 3);
  return [...new Set(choices)].flatMap((kind, nth) => {
    const isSecondClone = clonePlants.get(kind)?.rank === 3 && kind !== choices[replaced];
    return isSecondClone ? [] : [{ kind, name: `plant${nth}`, variant: chance(1000) }];
  });
};

export const chooseRound = (seed: number, number: number): Round => {
  const chance = chanceOf(seed + number * 7919);
  const base = chance(4) === 0 ? bases[1] : bases[0];
  const possible = [...works].flatMap(([kind, work]) => ((work.base ?? base) === base ? [kind] : []));
  const chosen = pickSome(chance, possible, 1 + chance(6));
  return {
    seed,
    number,
    base,
    works: sorted(chosen.map((kind, nth) => ({ kind, name: `work${nth}`, variant: chance(1000) }))),
    plants: sorted(choosePlants(chance, base)),
    looks: chooseLooks(chance),
    obeys: pick(chance, ["no", "no", "yes", "spoils"]),
    renews: chance(2) === 0,
  };
};

/** Honest work that the plants of a round destroy themselves. */
export const spoiltIn = ({ plants: chosen }: Round): Set<Spoilt> =>
  new Set(chosen.flatMap(({ kind }) => plants.get(kind)?.spoils ?? []));

/** Seconds that git may take. */
export const gitTimeoutOf = ({ plants: chosen }: Round): number =>
  chosen.some(({ kind }) => filePlants.get(kind)?.isSlow === true) ? 2 : 60;
