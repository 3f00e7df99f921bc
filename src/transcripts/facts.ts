import type { Line, LineFacts } from "./transcript-line.ts";

/**
 * The knowledge of one source after some of its lines. It is a fold over the lines, so that it does not matter in how many
 * pieces they came.
 */
export const noFacts = () => ({
  entries: 0,
  start: null as number | null,
  last: null as number | null,
  /** Tokens and USD of the session as its agent reckons them. */
  totalTokens: 0,
  totalCost: null as number | null,
  /** The first working directory and the last one. */
  project: "",
  cwd: "",
  branch: "",
  slugs: [] as string[],
  model: "",
  /** Codex: the thread, the time of the last line that was copied (null: own lines have begun), tokens up to there. */
  thread: "",
  copiedAt: null as number | null,
  copiedTokens: 0,
  /** Lines of which something could not be read, and kinds of lines that are not known, with their numbers. */
  damaged: 0,
  unknown: {} as Record<string, number>,
});
export type Facts = ReturnType<typeof noFacts>;

const mostSlugs = 50;
const mostUnknown = 50;

/** Changes the facts. @returns whether it is an entry, and whether a copied one */
export const learn = (facts: Facts, line: Line): { isEntry: boolean; isCopied: boolean } => {
  if (line.at !== null) {
    facts.start = Math.min(facts.start ?? line.at, line.at);
    facts.last = Math.max(facts.last ?? line.at, line.at);
  }
  learnPlace(facts, line.facts);
  learnThread(facts, line);
  const isCopied = facts.copiedAt !== null;
  learnTotals(facts, line.facts, isCopied);
  const known = facts.unknown[line.unknown] ?? 0;
  if (line.unknown !== "" && (known > 0 || Object.keys(facts.unknown).length < mostUnknown))
    facts.unknown[line.unknown] = known + 1;
  const isEntry = line.type !== null && (line.content !== "" || line.more !== "" || line.calls.length > 0);
  if (isEntry) facts.entries += 1;
  return { isEntry, isCopied };
};

const learnTotals = (facts: Facts, { totalTokens, totalCost }: LineFacts, isCopied: boolean): void => {
  if (totalTokens !== undefined && isCopied) facts.copiedTokens = totalTokens;
  else if (totalTokens !== undefined) facts.totalTokens = Math.max(0, totalTokens - facts.copiedTokens);
  facts.totalCost = totalCost ?? facts.totalCost;
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
  if (thread !== undefined && facts.thread === "") facts.thread = thread;
  else if (thread !== undefined) facts.copiedAt = thread === facts.thread ? null : (at ?? 0);
  else if (facts.copiedAt !== null && at !== null)
    facts.copiedAt = at - facts.copiedAt > longestCopyPause ? null : at;
};
