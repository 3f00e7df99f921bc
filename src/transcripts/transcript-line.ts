import type { EntryType } from "../contract/transcript-entry.ts";
import type { Json } from "./json.ts";

export type Call = { id: string; name: string; input: Json };
export type Result = { id: string; text: string; isError: boolean };

export type LineFacts = {
  cwd?: string;
  branch?: string;
  slug?: string;
  /** `leaf`: uuid of a line of the session that it is about; empty: the line's own session. */
  title?: { kind: TitleKind; text: string; leaf: string };
  model?: string;
  /** Tokens and USD of an answer, which may be repeated on several lines with the same `id`. */
  bill?: { id: string; tokens: number; cost: number | null };
  /** Tokens of the whole session so far. */
  totalTokens?: number;
  /** USD of the whole session so far. */
  totalCost?: number;
  /** The thread that a rollout of Codex says it is. A fork has the line of its parent, too, before what it copies. */
  thread?: string;
};

/** The first of these that a session has is its title. */
export const titleKinds = ["custom", "agent", "ai", "summary"] as const;
export type TitleKind = (typeof titleKinds)[number];

/** The content of one line of a transcript, whichever agent wrote it. Empty texts: it says nothing of the kind. */
export const emptyLine = {
  /** `null`: the line only tells facts about its session. */
  type: null as EntryType | null,
  /** Unix time, ms. */
  at: null as number | null,
  uuid: "",
  /** The session that the line names as its own. */
  session: "",
  /** The uuid of the line of another session that this one says it copies. */
  copyOf: "",
  /** A kind of line that this version does not know. */
  unknown: "",
  /** The text that a reader of the session is shown. */
  content: "",
  thinking: "",
  calls: [] as Call[],
  results: [] as Result[],
  /** Searched besides the content: thinking, inputs and results of tools, errors. */
  more: "",
  /** Whether it belongs to a subagent whose lines stand in the session's file. */
  sidechain: false,
  /** Whether a person typed it. */
  isPrompt: false,
  isError: false,
  facts: {} as LineFacts,
};
export type Line = typeof emptyLine;

export const searchedText = ({ content, more }: Line): string =>
  withoutData(content === "" ? more : more === "" ? content : `${content}\n${more}`);

export const withoutData = (text: string): string => text.replace(base64, "");

/** Data that tools print or people paste: a long run, or lines of the usual length. No word is as long. */
const base64 = /(?<![\w+/-])(?:[\w+/-]{240,}={0,2}|(?:[\w+/]{60,76}\r?\n){4,}(?:[\w+/]+={0,2}$)?)/gm;

/** Whether readers of the session see the line: results of tools and thinking are only searched. */
export const isShown = ({ type, content, calls, sidechain }: Line): boolean =>
  type !== null && !sidechain && (content !== "" || calls.length > 0);
