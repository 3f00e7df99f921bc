import { checkEnd } from "./checks.ts";
import type { JobEvent } from "../contract/event.ts";
import type { SetupEvent } from "../contract/setup.ts";
import { firstText, plainLines } from "./plain.ts";
import { counted } from "./quantities.ts";
import { oneLine, sanitise } from "./sanitise.ts";
import { retryText } from "./waiting.ts";

/** One row of a job's progress, before it is fitted to a terminal or a file. */
export type Row = {
  kind: "stage" | "tool" | "result" | "text" | "thinking" | "note" | "problem";
  /** Time of the event, in ms since the job was submitted. */
  elapsedMs: number;
  /** Safe for a terminal, without line breaks. */
  text: string;
};

/** Turns events into rows: joins pieces of text to lines; every other event is a row or nothing. */
export type Narration = {
  /** The rows that this event completes. */
  add: (event: JobEvent) => Row[];
  openRow: () => Row | null;
  rest: () => Row[];
};

/** A longer line is broken here, so that memory is bounded. */
const maxLineLength = 4000;

/**
 * @param begin time of the submission, ms since the epoch, by the service's clock
 * @param results lines of a tool's result that are rows; 0: only what has failed is one
 */
export const createNarration = (begin: number, { results = 0 }: { results?: number } = {}): Narration => {
  let open: (Row & { block: number }) | null = null;
  let blank = true;
  let worktree: string | null = null;
  const calls = new Map<string, string>();
  let lastCall: string | undefined;

  const close = (): Row[] => {
    const row = open;
    open = null;
    return row === null ? [] : withBlankLines(row);
  };

  /** Keeps single blank lines between text, and no others. */
  const withBlankLines = (row: Row): Row[] => {
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
    const done = lines.flatMap((text) => withBlankLines({ kind, elapsedMs, text }));
    open = last === "" ? null : { kind, elapsedMs, text: last, block: piece.block };
    return [...before, ...done];
  };

  const elapsedOf = ({ at }: JobEvent): number => Math.max(0, Date.parse(at) - begin);

  const take = (event: JobEvent): Row[] => {
    const elapsedMs = elapsedOf(event);
    if (event.type === "text" || event.type === "thinking") return takeText(event.type, event, elapsedMs);
    if (event.type === "block_end") return open?.block === event.block ? close() : [];
    if (event.type === "stage" && event.stage === "worktree_ready") worktree = event.detail;
    const described = describeEvent(event, worktree);
    if (event.type === "tool_use" && described !== null) {
      calls.set(event.id, described.text);
      lastCall = event.id;
    }
    if (event.type === "tool_result" && results > 0) {
      const label = event.tool_use_id === lastCall ? undefined : calls.get(event.tool_use_id);
      lastCall = undefined;
      const lines = resultLines(event, { label, most: results });
      return [...close(), ...lines.flatMap((text) => withBlankLines({ kind: "result", elapsedMs, text }))];
    }
    return described === null ? [] : [...close(), ...withBlankLines({ ...described, elapsedMs })];
  };

  const add = (event: JobEvent): Row[] =>
    event.type === "setup" ? [...close(), ...setupRows(event, elapsedOf(event))] : take(event);

  return { add, openRow: () => open, rest: close };
};

const setupRows = ({ text }: SetupEvent, elapsedMs: number): Row[] =>
  sanitise(text)
    .trimEnd()
    .split("\n")
    .map((each) => ({ kind: each.startsWith("$ ") ? "stage" : "note", elapsedMs, text: each }));

/** The first lines of a result. `label`: of the call it belongs to, where that is not the line above. */
const resultLines = (
  { content, is_error: failed }: Extract<JobEvent, { type: "tool_result" }>,
  { label, most }: { label: string | undefined; most: number },
): string[] => {
  const all = (sanitise(content).trimEnd() || "(nothing)").split("\n");
  const shown = all.slice(0, most).map((text) => (most === Infinity ? text : text.slice(0, resultWidth)));
  return [
    ...(label === undefined ? [] : [`of ${label}`]),
    ...(failed ? ["failed"] : []),
    ...shown,
    ...(all.length > most ? [`… ${counted(all.length - most, "more line")}`] : []),
  ].map((text, index) => (index === 0 ? "⎿ " : "  ") + text);
};

/** Characters of a line of a result: one may have megabytes. */
const resultWidth = 200;

const chunks = (line: string): string[] => line.match(new RegExp(`.{1,${maxLineLength}}`, "gsu")) ?? [line];

type Line = Omit<Row, "elapsedMs">;

/**
 * The event as one line; null when it has nothing for a reader, or belongs to the flow of text.
 * @param worktree directory the agent works in, where it is known
 */
export const describeEvent = (event: JobEvent, worktree: string | null): Line | null => {
  // The key is the event's own type, which the compiler cannot relate to the row of the table.
  const describe = described[event.type] as Describe<JobEvent> | undefined;
  return describe?.(event, worktree) ?? null;
};

type Describe<Event> = (event: Event, worktree: string | null) => Line | null;

const described: { [Type in JobEvent["type"]]?: Describe<Extract<JobEvent, { type: Type }>> } = {
  stage: ({ stage, detail }) => line("stage", stage.replaceAll("_", " "), detail),
  started: ({ session_id: id, model }) => line("note", "session", model === null ? id : `${id}, ${model}`),
  tool_use: ({ name, input, parent }, worktree) => ({
    kind: "tool",
    text: `${parent === null ? "" : "↳ "}${toolCall(name, input, worktree)}`,
  }),
  tool_result: ({ is_error: failed, content }) =>
    failed ? line("problem", "tool failed", firstLine(content)) : null,
  retry: (event) => line("problem", retryText(event), firstLine(event.error)),
  rate_limit: ({ status, resets_at: resets }) => {
    if (status === "allowed") return null;
    if (status === "waits") return line("problem", "waits for the usage limit", `until ${resets}`);
    return line("problem", "rate limit", resets === null ? status : `${status}, resets at ${resets}`);
  },
  result: ({ ok, subtype, text }) => {
    // The agent CLI calls a result a "success" although its API refused.
    if (subtype === "cut_off") return null;
    const why = subtype === "success" ? "" : ` (${short(subtype)})`;
    return ok ? null : line("problem", `the agent gave up${why}`, firstLine(text));
  },
  exited: ({ exit_code: code, signal }) => {
    if (signal !== null) return line("note", "the agent's process was ended by", signal);
    return code ? line("problem", `the agent's process exited with ${code}`, null) : null;
  },
  check_start: ({ name, before, run }) =>
    line("stage", `check ${name}${before ? " before the change" : ""}`, run),
  check_end: ({ name, status, exit_code, duration_ms }) =>
    line(
      status === "passed" ? "note" : "problem",
      `check ${name}`,
      checkEnd({ status, exit_code, duration_ms }),
    ),
  message: ({ text }) => line("note", "you said", text),
  // Once is told already.
  denied: ({ message, at_end: atEnd, count }) =>
    atEnd && count === 1 ? null : line("problem", message, null),
  warning: ({ message }) => line("problem", message, null),
};

const line = (kind: Row["kind"], head: string, detail: string | null): Line => ({
  kind,
  text: detail === null || detail === "" ? short(head) : `${short(head)}  ${short(detail)}`.trimEnd(),
});

/** An argument can have megabytes; only one line of it is shown. */
const short = (text: string): string => oneLine(text.slice(0, 2000));

const firstLine = (text: string): string => text.slice(0, 2000).trimStart().split("\n", 1)[0] ?? "";

/** A tool call on one line: its name and most informative argument, a path within the worktree relative to it. */
export const toolCall = (name: string, input: unknown, worktree: string | null): string => {
  const argument = seenFrom(worktree, mainArgument(input));
  return short(name) + (argument === "" ? "" : `  ${argument}`);
};

const mainArgument = (input: unknown): string => {
  if (typeof input === "string") return short(input);
  if (typeof input !== "object" || input === null) return "";
  const values = new Map<string, unknown>(Object.entries(input));
  const text = [...informative.map((key) => values.get(key)), ...values.values()].find(
    (value) => typeof value === "string" && value !== "",
  );
  return short(typeof text === "string" ? text : firstText(input) || plainLines(input).join(", "));
};

const seenFrom = (worktree: string | null, text: string): string =>
  worktree !== null && text.startsWith(`${worktree}/`) ? text.slice(worktree.length + 1) : text;

/** Arguments by how informative they are, the best first. */
const informative = [
  "command",
  "file_path",
  "notebook_path",
  "path",
  "pattern",
  "url",
  "query",
  "description",
  "prompt",
];
