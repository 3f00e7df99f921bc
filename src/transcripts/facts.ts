import { beginning } from "./answer-size.ts";
import { titleKinds, type Line, type TitleKind } from "./transcript-line.ts";

/**
 * What is known about one source after some of its lines. It is a fold over the lines, so that it does not matter in how
 * many pieces they came.
 */
export type Facts = {
  entries: number;
  start: number | null;
  last: number | null;
  prompts: number;
  answers: number;
  calls: number;
  /** The first working directory and the last one. */
  project: string;
  cwd: string;
  branch: string;
  slugs: string[];
  titles: Partial<Record<TitleKind, string>>;
  prompt: string;
  model: string;
  tokens: number;
  cost: number | null;
  /** The last answers: a later line may repeat or correct what they cost. */
  bills: { id: string; tokens: number; cost: number | null }[];
};

export const noFacts = (): Facts => ({
  entries: 0,
  start: null,
  last: null,
  prompts: 0,
  answers: 0,
  calls: 0,
  project: "",
  cwd: "",
  branch: "",
  slugs: [],
  titles: {},
  prompt: "",
  model: "",
  tokens: 0,
  cost: null,
  bills: [],
});

const remembered = 16;

const mostSlugs = 50;

const longestSummary = 200;

/** Changes the facts. @returns whether the line is an entry */
export const learn = (facts: Facts, line: Line): boolean => {
  if (line.at !== null) {
    facts.start = Math.min(facts.start ?? line.at, line.at);
    facts.last = Math.max(facts.last ?? line.at, line.at);
  }
  learnPlace(facts, line);
  learnBill(facts, line);
  if (line.isPrompt) {
    facts.prompts += 1;
    if (facts.prompt === "") facts.prompt = beginning(line.content, longestSummary);
  }
  if (!line.sidechain) facts.calls += line.calls.length;
  const isEntry = line.type !== null && (line.content !== "" || line.more !== "" || line.calls.length > 0);
  if (isEntry) facts.entries += 1;
  return isEntry;
};

const learnPlace = (facts: Facts, { facts: { cwd, branch, slug, title, model } }: Line): void => {
  if (cwd !== undefined) {
    facts.cwd = cwd;
    if (facts.project === "") facts.project = cwd;
  }
  if (branch !== undefined) facts.branch = branch;
  // The last one is the session's name now.
  if (slug !== undefined && facts.slugs.at(-1) !== slug)
    facts.slugs = [...facts.slugs.filter((other) => other !== slug), slug].slice(-mostSlugs);
  if (title !== undefined) facts.titles[title.kind] = beginning(title.text, longestSummary);
  if (model !== undefined) facts.model = model;
};

const learnBill = (facts: Facts, { type, content, sidechain, facts: { bill, totalTokens } }: Line): void => {
  if (totalTokens !== undefined) facts.tokens = totalTokens;
  if (type !== "assistant") return;
  if (bill === undefined) {
    if (content !== "") facts.answers += 1;
    return;
  }
  const known = facts.bills.find(({ id }) => id === bill.id && id !== "");
  if (known === undefined && !sidechain) facts.answers += 1;
  facts.tokens += bill.tokens - (known?.tokens ?? 0);
  if (bill.cost !== null) facts.cost = (facts.cost ?? 0) + bill.cost - (known?.cost ?? 0);
  facts.bills = [...facts.bills.filter((other) => other !== known), bill].slice(-remembered);
};

export const titleOf = ({ titles }: Facts): string =>
  titleKinds.map((kind) => titles[kind] ?? "").find((title) => title !== "") ?? "";

export const summaryOf = ({ titles, prompt }: Facts): string => titles.summary ?? prompt;
