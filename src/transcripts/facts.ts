import type { Line, LineFacts } from "./transcript-line.ts";

/** Sums over the entries that a source has not from elsewhere. `cost`: USD; `costs`: how many answers tell one. */
const noTotals = () => ({ prompts: 0, answers: 0, calls: 0, tokens: 0, cost: 0, costs: 0 });
export type Totals = ReturnType<typeof noTotals>;

export const entryTotals =
  "prompt IS NOT NULL AS prompts, turn AS answers, calls, tokens, coalesce(cost, 0) AS cost, cost IS NOT NULL AS costs";

export const addTotals = (totals: Totals, part: Partial<Totals>, sign: 1 | -1): void => {
  for (const name of Object.keys(totals) as (keyof Totals)[]) totals[name] += sign * (part[name] ?? 0);
};

/**
 * The knowledge of one source after some of its lines. It is a fold over the lines, so that it does not matter in how many
 * pieces they came.
 */
export const noFacts = () => ({
  entries: 0,
  start: null as number | null,
  last: null as number | null,
  /** Tokens and USD as the agent reckons them, what a fork has copied included. */
  totalTokens: 0,
  totalCost: null as number | null,
  totals: noTotals(),
  /** The first working directory and the last one. */
  project: "",
  cwd: "",
  branch: "",
  slugs: [] as string[],
  model: "",
  /** Codex: the thread and those it forks from, the first one last. */
  threads: [] as string[],
  /** The time of the last line that was copied; null: own lines have begun. */
  copiedAt: null as number | null,
  /** Lines of which something could not be read, and kinds of lines that are not known, with their numbers. */
  damaged: 0,
  unknown: {} as Record<string, number>,
});
export type Facts = ReturnType<typeof noFacts>;

const mostSlugs = 50;
/** So many kinds are named; the others count together. */
export const mostUnknown = 50;
export const otherKinds = "(others)";

/** Changes the facts. @returns whether it is an entry, and whether a copied one */
export const learn = (facts: Facts, line: Line, isForeign: boolean) => {
  if (line.at !== null) {
    facts.start = Math.min(facts.start ?? line.at, line.at);
    facts.last = Math.max(facts.last ?? line.at, line.at);
  }
  learnPlace(facts, line.facts);
  learnThread(facts, line);
  if (!isForeign) facts.totalCost = line.facts.totalCost ?? facts.totalCost;
  if (line.unknown !== "") learnUnknown(facts, line.unknown);
  const isEntry = isEntryOf(line);
  if (isEntry) facts.entries += 1;
  return { isEntry, isCopied: facts.copiedAt !== null };
};

/** An answer without a text has its price. */
const isEntryOf = ({ type, content, more, calls, facts: { bill } }: Line): boolean =>
  type !== null && (content !== "" || more !== "" || calls.length > 0 || (bill?.tokens ?? 0) > 0);

const learnUnknown = ({ unknown }: Facts, kind: string): void => {
  const name = kind in unknown || Object.keys(unknown).length < mostUnknown ? kind : otherKinds;
  unknown[name] = (unknown[name] ?? 0) + 1;
};

const learnPlace = (facts: Facts, { cwd, branch, slug, model }: LineFacts): void => {
  facts.cwd = cwd ?? facts.cwd;
  facts.project ||= facts.cwd;
  facts.branch = branch ?? facts.branch;
  facts.model = model ?? facts.model;
  // The last one is the session's name now.
  if (slug !== undefined && facts.slugs.at(-1) !== slug)
    facts.slugs = [...facts.slugs.filter((other) => other !== slug), slug].slice(-mostSlugs);
};

/** Codex writes what a fork copies at once: a longer pause, in ms, is its end where no line of the fork's own says so. */
const longestCopyPause = 1000;

/**
 * The first thread that is named is the rollout's own. One of another thread begins what is copied from it; one of the
 * own thread, or a pause, ends it.
 */
const learnThread = (facts: Facts, { at, facts: { thread } }: Line): void => {
  const [own = thread] = facts.threads;
  if (thread !== undefined && !facts.threads.includes(thread)) facts.threads.push(thread);
  if (thread !== undefined) facts.copiedAt = thread === own ? null : (at ?? 0);
  else if (facts.copiedAt !== null && at !== null)
    facts.copiedAt = at - facts.copiedAt > longestCopyPause ? null : at;
};
