/** A call of a tool. */
export type Call = {
  type: "tool";
  name: string;
  /** As it was sent: JSON as text too. */
  input: unknown;
  /** Null: there is none yet, or the call ended without one. */
  result: { text: string; isError: boolean } | null;
  isLive?: boolean;
  /** The model still writes its input. */
  isWriting?: boolean;
  /** Whether it is shown open at first; absent: if it is of interest. */
  isOpen?: boolean;
  /** Those of the subagent that it started. */
  calls?: readonly Call[];
};

/** A piece of a conversation. `isDropped`: the model began anew, what follows replaces it. */
export type Part =
  | { type: "text"; text: string; isDropped?: boolean }
  | { type: "thinking"; text: string }
  | { type: "question" | "stage" | "note" | "problem" | "result"; text: string }
  | { type: "folded"; title: string; text: string }
  | Call;

/** An entry of a conversation: an event of a job, an entry of a session, a turn of a chat. */
export type Entry = {
  /** Its own number. */
  seq: number;
  /** Its class. */
  type: string;
  parts: readonly Part[];
  /** More may come of its last part. */
  isLive: boolean;
  /** Counts with the parts of an entry that changes in place. */
  changes?: number;
};

/** What a part shows, folded or not. */
export const textOf = (part: Part): string => {
  if (part.type !== "tool") return part.text;
  const given = typeof part.input === "string" ? part.input : JSON.stringify(part.input ?? "");
  const input = given.replaceAll("\\n", "\n").replaceAll('\\"', '"');
  return [part.name, input, part.result?.text ?? "", ...(part.calls ?? []).map(textOf)].join("\n");
};
