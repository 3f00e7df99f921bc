import type { JobEvent } from "../../../src/contract/event.ts";
import { addUsage, type StageName, type Usage } from "../../../src/contract/job.ts";
import { describeEvent } from "../../../src/view/narration.ts";
import type { Call } from "../conversation/entry.ts";

/** What every entry has. Entries change in place; `changes` counts how often. */
type Base = { seq: number; at: string; attempt: number; changes: number; isLive: boolean };

export type ToolEntry = Base &
  Omit<Call, "calls"> & {
    /** Number of the event with the result; 0: there is none. */
    resultSeq: number;
    calls: ToolEntry[];
    parent: ToolEntry | null;
  };

type TextEntry = Base & { type: "text" | "thinking"; text: string; isDropped: boolean };

/** An entry of a job's conversation, which is its one part too. */
export type JobEntry =
  | ToolEntry
  | TextEntry
  | (Base & { type: "stage" | "note" | "problem" | "result"; text: string });

/** What the events so far say about the job. */
const nothing = {
  /** Number of the last event; 0: none. */
  seq: 0,
  /** Time of the last event; empty: there is none. */
  at: "",
  model: null as string | null,
  worktree: null as string | null,
  costUsd: null as number | null,
  /** Of the attempt so far: of its results, and of the calls of the model since. */
  usage: null as Usage | null,
  stages: [] as readonly { stage: StageName; at: string; attempt: number }[],
  /** Results of tools that may have changed files. */
  edits: 0,
};

/** Subagents deeper than this are shown beside their parent: a hostile chain must not nest without end. */
const deepest = 3;

/** Tools that change no files. */
const readers = new Set(["Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite"]);

/** Others have a path, which *Details* has too, or a process id. */
const detailed = new Set<StageName>(["claimed", "pushed", "pull_request", "ended"]);

/** Joins a job's events to a conversation: pieces to texts, results to calls, calls to subagents, stages to a line. */
export const createConversation = () => {
  /** In order of their first events. Grows and changes in place. */
  const entries: JobEntry[] = [];
  const facts = { ...nothing };
  const tools = new Map<string, ToolEntry>();
  const waiting = new Set<ToolEntry>();
  /** Texts by their block, of one attempt. */
  let blocks = new Map<number, TextEntry>();
  let attempt = 0;
  /** One runs at a time, or the setup. */
  let check: ToolEntry | null = null;
  /** Tokens of the attempt's results. */
  let settled: Usage | null = null;

  const changed = (entry: ToolEntry): void => {
    for (let each: ToolEntry | null = entry; each !== null; each = each.parent) each.changes += 1;
  };

  const takeText = (event: Of<"text" | "thinking">): void => {
    const before = blocks.get(event.block);
    if (before?.isLive === true && before.type === event.type) {
      before.text += event.text;
      before.changes += 1;
      return;
    }
    const { type, text } = event;
    const entry: TextEntry = { ...base(event), type, text, isLive: true, isDropped: false };
    blocks.set(event.block, entry);
    entries.push(entry);
  };

  const closeBlock = (block: number, isDropped: boolean): void => {
    const entry = blocks.get(block);
    if (entry === undefined) return;
    Object.assign(entry, { isLive: false, isDropped, changes: entry.changes + 1 });
    if (isDropped) blocks.delete(block);
  };

  const begin = (event: JobEvent, name: string, input: unknown, parentId: string | null): ToolEntry => {
    let parent = parentId === null ? null : (tools.get(parentId) ?? null);
    if (parent !== null && depthOf(parent) >= deepest) parent = parent.parent;
    const call = { type: "tool" as const, name, input, result: null, resultSeq: 0, calls: [], parent };
    const entry: ToolEntry = { ...base(event), ...call, isLive: true };
    (parent?.calls ?? entries).push(entry);
    changed(entry);
    waiting.add(entry);
    return entry;
  };

  const takeUse = ({ name, input, ...event }: Of<"tool_use">): void => {
    const written = tools.get(event.id);
    if (written?.isWriting === true) {
      Object.assign(written, { name, input, isWriting: false });
      changed(written);
    } else tools.set(event.id, begin({ name, input, ...event }, name, input, event.parent));
  };

  const takeResult = (event: Of<"tool_result">): void => {
    const { tool_use_id: id, content: text, is_error: isError, seq } = event;
    const entry = tools.get(id) ?? begin(event, "", null, event.parent);
    Object.assign(entry, { result: { text, isError }, resultSeq: seq, isLive: false });
    waiting.delete(entry);
    changed(entry);
    if (!readers.has(entry.name)) facts.edits += 1;
  };

  /** What an attempt left open gets no end. */
  const closeAll = (): void => {
    for (const block of blocks.keys()) closeBlock(block, false);
    blocks = new Map();
    for (const entry of waiting) {
      entry.isLive = false;
      changed(entry);
    }
    waiting.clear();
    check = null;
  };

  const tell = (event: JobEvent): void => {
    const row = describeEvent(event, facts.worktree);
    if (row === null) return;
    const type = row.kind === "problem" || row.kind === "stage" ? row.kind : "note";
    const last = entries.at(-1);
    if (type === "stage" && last?.type === "stage") {
      last.text += ` · ${row.text}`;
      last.changes += 1;
    } else entries.push({ ...base(event), type, text: row.text });
  };

  const endCheck = (seq: number, isError: boolean): void => {
    if (check === null) return;
    const text = check.result?.text || "(no output)";
    Object.assign(check, { result: { text, isError }, resultSeq: seq, isLive: false });
    waiting.delete(check);
    changed(check);
    check = null;
  };

  const takers: { [Type in JobEvent["type"]]: (event: Of<Type>) => void } = {
    text: takeText,
    thinking: takeText,
    block_end: ({ block }) => closeBlock(block, false),
    tool_start: (event) =>
      void tools.set(event.id, Object.assign(begin(event, event.name, null, null), { isWriting: true })),
    tool_use: takeUse,
    tool_result: takeResult,
    check_start: (event) => {
      const { name, before, run } = event;
      const title = `Check ${name}${before ? " before the change" : ""}`;
      check = begin(event, title, { command: run }, null);
    },
    check_output: ({ text }) => {
      if (check !== null) check.result = { text: (check.result?.text ?? "") + text, isError: false };
      if (check !== null) changed(check);
    },
    check_end: ({ status, seq }) => endCheck(seq, status !== "passed"),
    setup: (event) => {
      check ??= begin(event, "Setup", null, null);
      takers.check_output({ ...event, type: "check_output", name: "", before: false });
    },
    stage: (event) => {
      const { stage, detail, at } = event;
      if (stage === "setup") endCheck(event.seq, detail !== null);
      if (stage === "worktree_ready") facts.worktree = detail;
      facts.stages = [...facts.stages, { stage, at, attempt: event.attempt }];
      // The conversation itself shows both.
      if (stage === "first_output" || stage === "result") return;
      tell(detailed.has(stage) ? event : { ...event, detail: null });
    },
    started: (event) => {
      facts.model = event.model;
      tell(event);
    },
    retry: tell,
    rate_limit: tell,
    denied: tell,
    message: tell,
    warning: (event) => {
      if (event.dropped_block !== undefined) closeBlock(event.dropped_block, true);
      tell(event);
    },
    result: (event) => {
      facts.costUsd = event.cost_usd ?? facts.costUsd;
      settled = addUsage(settled, event.usage);
      facts.usage = event.usage === null ? facts.usage : settled;
      if (event.subtype === "cut_off") return;
      const text = event.ok ? "The agent is done" : "The agent gave up";
      entries.push({ ...base(event), type: "result", text });
    },
    usage: ({ usage }) => void (facts.usage = addUsage(facts.usage, usage)),
    exited: (event) => {
      closeAll();
      tell(event);
    },
  };

  return {
    entries,
    facts,
    /** Takes the next event, in constant time. */
    add: (event: JobEvent): void => {
      facts.seq = event.seq;
      facts.at = event.at;
      if (event.attempt !== attempt) {
        closeAll();
        facts.usage = settled = null;
      }
      attempt = event.attempt;
      // The key is the event's own type, which the compiler cannot relate to the row. A later version may send others.
      (takers[event.type] as ((event: JobEvent) => void) | undefined)?.(event);
    },
    /** The entry of `entries` that the event `seq` became a part of; -1: none. */
    indexOf: (seq: number): number => {
      const exact = entries.findIndex((entry) => holds(entry, seq));
      return exact === -1 ? entries.findLastIndex((entry) => entry.seq <= seq) : exact;
    },
  };
};

type Of<Type extends JobEvent["type"]> = Extract<JobEvent, { type: Type }>;

const holds = (entry: JobEntry, seq: number): boolean =>
  entry.seq === seq ||
  (entry.type === "tool" && (entry.resultSeq === seq || entry.calls.some((call) => holds(call, seq))));

const base = ({ seq, at, attempt }: JobEvent): Base => ({ seq, at, attempt, changes: 0, isLive: false });

const depthOf = ({ parent }: ToolEntry): number => (parent === null ? 1 : 1 + depthOf(parent));
