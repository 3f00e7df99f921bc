import type { JobEvent } from "../../contract/event.ts";
import { sanitise } from "../text/sanitise.ts";
import { describeEvent } from "./describe-event.ts";
import type { Row } from "./row.ts";

/** Turns the stream of events into rows: pieces of text are joined to lines, every other event is a row or nothing. */
export type Narration = {
  /** The rows that this event completes. */
  take: (event: JobEvent) => Row[];
  /** The line of text that is still being written, if any. */
  open: () => Row | null;
  /** The rows that are left at the end. */
  rest: () => Row[];
};

/** A line without an end is broken there, so that nothing grows without bounds. */
const longestLine = 4000;

/** @param begin time of the submission, ms since the epoch, by the service's clock */
export const createNarration = (begin: number): Narration => {
  let open: (Row & { block: number }) | null = null;
  let blank = true;
  let worktree: string | null = null;

  const close = (): Row[] => {
    const row = open;
    open = null;
    return row === null ? [] : keep(row);
  };

  /** Blank lines are kept where they part text, one at a time, and nowhere else. */
  const keep = (row: Row): Row[] => {
    const isBlank = row.text.trim() === "";
    if (isBlank && blank) return [];
    blank = isBlank;
    return [{ kind: row.kind, elapsedMs: row.elapsedMs, text: row.text.trimEnd() }];
  };

  const takeText = (
    kind: "text" | "thinking",
    piece: { block: number; text: string },
    elapsedMs: number,
  ): Row[] => {
    const before = open !== null && (open.block !== piece.block || open.kind !== kind) ? close() : [];
    const lines = ((open?.text ?? "") + sanitise(piece.text)).split("\n").flatMap(chunks);
    const last = lines.pop() ?? "";
    const done = lines.flatMap((text) => keep({ kind, elapsedMs, text }));
    open = last === "" ? null : { kind, elapsedMs, text: last, block: piece.block };
    return [...before, ...done];
  };

  const take = (event: JobEvent): Row[] => {
    const elapsedMs = Math.max(0, Date.parse(event.at) - begin);
    if (event.type === "text" || event.type === "thinking") return takeText(event.type, event, elapsedMs);
    if (event.type === "block_end") return open?.block === event.block ? close() : [];
    if (event.type === "stage" && event.stage === "worktree_ready") worktree = event.detail;
    const described = describeEvent(event, worktree);
    return described === null ? [] : [...close(), ...keep({ ...described, elapsedMs })];
  };

  return { take, open: () => open, rest: close };
};

const chunks = (line: string): string[] => line.match(new RegExp(`.{1,${longestLine}}`, "gsu")) ?? [line];
