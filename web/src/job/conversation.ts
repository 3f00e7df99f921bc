import type { JobEvent } from "../../../src/contract/event.ts";
import { addUsage, type StageName, type Usage } from "../../../src/contract/job.ts";
import { describeEvent } from "../../../src/view/narration.ts";

/** What every entry of a conversation has. Entries change in place; `changes` counts how often. */
type Base = { seq: number; at: string; attempt: number; changes: number };

export type ToolEntry = Base & {
  kind: "tool";
  name: string;
  input: unknown;
  /** `writing`: the model writes its input; `unanswered`: the agent ended before its result. */
  state: "writing" | "running" | "done" | "failed" | "unanswered";
  result: { seq: number; at: string; content: string } | null;
  /** Calls of the subagent that this call started. */
  calls: ToolEntry[];
  parent: ToolEntry | null;
};

type TextEntry = Base & {
  kind: "text" | "thinking";
  text: string;
  /** More pieces may come. */
  isOpen: boolean;
  /** The model began anew: the following text replaces this. */
  isDropped: boolean;
};

export type Entry =
  | ToolEntry
  | TextEntry
  | (Base & { kind: "stage" | "note" | "problem"; text: string })
  | (Base & { kind: "result"; ok: boolean; text: string; turns: number | null });

/** What the events so far say about the job. */
type Facts = {
  /** Number of the last event; 0: none. */
  seq: number;
  model: string | null;
  worktree: string | null;
  costUsd: number | null;
  /** Of the attempt so far: of its results, and of the calls of the model since. */
  usage: Usage | null;
  stages: { stage: StageName; at: string; attempt: number }[];
  /** Results of tools that may have changed files. */
  edits: number;
};

type Conversation = {
  /** In order of their first events. Grows and changes in place. */
  entries: Entry[];
  facts: Facts;
  /** Takes the next event, in constant time. */
  add: (event: JobEvent) => void;
  /** The entry of `entries` that the event `seq` became a part of; -1: none. */
  indexOf: (seq: number) => number;
};

/** Subagents deeper than this are shown beside their parent: a hostile chain must not nest without end. */
const deepest = 3;

/** Tools that change no files. */
const readers = new Set(["Read", "Grep", "Glob", "LS", "WebFetch", "WebSearch", "TodoWrite"]);

/** Others have a path, which *Details* has too, or a process id. */
const detailed = new Set<StageName>(["claimed", "pushed", "pull_request", "ended"]);

/** Joins a job's events to a conversation: pieces to texts, results to calls, calls to subagents, stages to a line. */
export const createConversation = (): Conversation => {
  const entries: Entry[] = [];
  const facts: Facts = {
    seq: 0,
    model: null,
    worktree: null,
    costUsd: null,
    usage: null,
    stages: [],
    edits: 0,
  };
  const tools = new Map<string, ToolEntry>();
  const waiting = new Set<ToolEntry>();
  /** Texts by their block, of one attempt. */
  let blocks = new Map<number, TextEntry>();
  let attempt = 0;
  /** Tokens of the attempt's results. */
  let settled: Usage | null = null;

  const changed = (entry: ToolEntry): void => {
    for (let each: ToolEntry | null = entry; each !== null; each = each.parent) each.changes += 1;
  };

  const takeText = (event: Of<"text" | "thinking">): void => {
    const before = blocks.get(event.block);
    if (before?.isOpen === true && before.kind === event.type) {
      before.text += event.text;
      before.changes += 1;
      return;
    }
    const text = { kind: event.type, text: event.text, isOpen: true, isDropped: false };
    const entry: TextEntry = { ...base(event), ...text };
    blocks.set(event.block, entry);
    entries.push(entry);
  };

  const closeBlock = (block: number, isDropped: boolean): void => {
    const entry = blocks.get(block);
    if (entry === undefined) return;
    Object.assign(entry, { isOpen: false, isDropped, changes: entry.changes + 1 });
    if (isDropped) blocks.delete(block);
  };

  const begin = (
    event: JobEvent,
    call: Pick<ToolEntry, "name" | "input" | "state">,
    parentId: string | null,
  ) => {
    let parent = parentId === null ? null : (tools.get(parentId) ?? null);
    if (parent !== null && depthOf(parent) >= deepest) parent = parent.parent;
    const entry: ToolEntry = { ...base(event), kind: "tool", ...call, result: null, calls: [], parent };
    (parent?.calls ?? entries).push(entry);
    changed(entry);
    waiting.add(entry);
    return entry;
  };

  const takeUse = (event: Of<"tool_use">): void => {
    const call = { name: event.name, input: event.input, state: "running" as const };
    const written = tools.get(event.id);
    if (written?.state !== "writing") {
      tools.set(event.id, begin(event, call, event.parent));
      return;
    }
    Object.assign(written, call);
    changed(written);
  };

  const takeResult = (event: Of<"tool_result">): void => {
    const { tool_use_id: id, content, is_error: failed, seq, at } = event;
    const entry = tools.get(id) ?? begin(event, { name: "", input: null, state: "running" }, event.parent);
    Object.assign(entry, { result: { seq, at, content }, state: failed ? "failed" : "done" });
    waiting.delete(entry);
    changed(entry);
    if (!readers.has(entry.name)) facts.edits += 1;
  };

  /** What an attempt left open gets no end. */
  const closeAll = (): void => {
    for (const block of blocks.keys()) closeBlock(block, false);
    blocks = new Map();
    for (const entry of waiting) {
      entry.state = "unanswered";
      changed(entry);
    }
    waiting.clear();
  };

  const tell = (event: JobEvent): void => {
    const row = describeEvent(event, facts.worktree);
    if (row === null) return;
    const kind = row.kind === "problem" || row.kind === "stage" ? row.kind : "note";
    const last = entries.at(-1);
    if (kind === "stage" && last?.kind === "stage") {
      last.text += ` · ${row.text}`;
      last.changes += 1;
    } else entries.push({ ...base(event), kind, text: row.text });
  };

  const takers: { [Type in JobEvent["type"]]: (event: Of<Type>) => void } = {
    text: takeText,
    thinking: takeText,
    block_end: ({ block }) => closeBlock(block, false),
    tool_start: (event) =>
      void tools.set(event.id, begin(event, { name: event.name, input: null, state: "writing" }, null)),
    tool_use: takeUse,
    tool_result: takeResult,
    stage: (event) => {
      const { stage, detail, at } = event;
      if (stage === "worktree_ready") facts.worktree = detail;
      facts.stages.push({ stage, at, attempt: event.attempt });
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
    warning: (event) => {
      if (event.dropped_block !== undefined) closeBlock(event.dropped_block, true);
      tell(event);
    },
    result: (event) => {
      facts.costUsd = event.cost_usd ?? facts.costUsd;
      settled = addUsage(settled, event.usage);
      facts.usage = event.usage === null ? facts.usage : settled;
      entries.push({
        ...base(event),
        kind: "result",
        ok: event.ok,
        text: event.text,
        turns: event.num_turns,
      });
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
    add: (event) => {
      facts.seq = event.seq;
      if (event.attempt !== attempt) {
        closeAll();
        facts.usage = settled = null;
      }
      attempt = event.attempt;
      // The key is the event's own type, which the compiler cannot relate to the row. A later version may send others.
      (takers[event.type] as ((event: JobEvent) => void) | undefined)?.(event);
    },
    indexOf: (seq) => {
      const exact = entries.findIndex((entry) => holds(entry, seq));
      return exact === -1 ? entries.findLastIndex((entry) => entry.seq <= seq) : exact;
    },
  };
};

type Of<Type extends JobEvent["type"]> = Extract<JobEvent, { type: Type }>;

const holds = (entry: Entry, seq: number): boolean =>
  entry.seq === seq ||
  (entry.kind === "tool" && (entry.result?.seq === seq || entry.calls.some((call) => holds(call, seq))));

const base = ({ seq, at, attempt }: JobEvent): Base => ({ seq, at, attempt, changes: 0 });

const depthOf = ({ parent }: ToolEntry): number => (parent === null ? 1 : 1 + depthOf(parent));
