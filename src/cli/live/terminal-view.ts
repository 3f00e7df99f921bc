import { createLogUpdate } from "log-update";
import type { JobEvent } from "../../contract/event.ts";
import { painter } from "../print.ts";
import { cut, clock, cost, counted } from "../../view/columns.ts";
import { createNarration, type Row } from "../../view/narration.ts";
import { createBlocks } from "../../view/rows.ts";
import { doingAfter } from "../../view/stages.ts";
import type { Shown, View } from "./view.ts";

/** For terminals: rows scroll above one status line that is redrawn. */
export const terminalView = (
  stream: NodeJS.WriteStream,
  begin: number,
  { stage = "queued", ...narrated }: Shown = {},
): View => {
  // The cursor stays visible: a killed process leaves nothing to repair.
  const draw = createLogUpdate(stream, { showCursor: true });
  const paint = painter(stream);
  const narration = createNarration(begin, narrated);
  const progress: Progress = { stage, tools: 0, turns: null, costUsd: null };
  let pending: string[] = [];
  // The service's clock may differ: the time of its latest event, plus the time passed here since then.
  let latest = { elapsedMs: 0, at: performance.now() };
  let frame = 0;
  let paused = false;

  const columns = (): number => Math.max(20, stream.columns);
  const blocks = createBlocks(() => ({ paint, columns: columns() }));
  const show = (rows: Row[]): void => {
    for (const row of rows) pending.push(...blocks.add(row));
    // A flood of rows must not pile up in memory until the next frame.
    if (pending.length > 200 && !paused) redraw();
  };

  const redraw = (): void => {
    if (pending.length > 0) draw.persist(pending.join("\n"));
    pending = [];
    const elapsed = latest.elapsedMs + performance.now() - latest.at;
    const open = narration.openRow();
    const writing = open === null ? [] : blocks.open(open).slice(-4);
    const spinner = spinnerFrames[Math.floor(frame++ / 2) % spinnerFrames.length] ?? "";
    const status = cut(`${spinner} ${statusLine(progress, elapsed)}`, columns() - 1);
    draw([...writing, paint("dim", status)].join("\n"));
  };
  let timer = setInterval(redraw, 60);
  let closed = false;

  /** Leaves the cursor below all that is shown. */
  const rest = (): void => {
    clearInterval(timer);
    if (pending.length > 0) draw.persist(pending.join("\n"));
    else draw.clear();
    pending = [];
    draw.done();
  };

  return {
    event: (event) => {
      advance(progress, event);
      const elapsedMs = Math.max(latest.elapsedMs, Date.parse(event.at) - begin);
      latest = { elapsedMs, at: performance.now() };
      show(narration.add(event));
    },
    note: (text) => show([{ kind: "problem", elapsedMs: latest.elapsedMs, text }]),
    pause: () => {
      paused = true;
      rest();
    },
    resume: () => {
      if (closed) return;
      paused = false;
      timer = setInterval(redraw, 60);
    },
    close: () => {
      if (closed) return;
      closed = true;
      show(narration.rest());
      rest();
    },
  };
};

const spinnerFrames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

type Stage = Parameters<typeof doingAfter>[0];

/** Where a job stands, by its events. */
type Progress = { stage: Stage; tools: number; turns: number | null; costUsd: number | null };

const advance = (progress: Progress, event: JobEvent): void => {
  if (event.type === "tool_use") progress.tools += 1;
  if (progress.stage === "agent_started" && event.type !== "stage") progress.stage = "first_output";
  if (event.type === "setup") progress.stage = "in_setup";
  if (event.type === "stage") progress.stage = event.stage;
  if (event.type !== "result") return;
  progress.turns = event.num_turns ?? progress.turns;
  progress.costUsd = event.cost_usd ?? progress.costUsd;
};

/** The status line below the rows while the job runs. */
const statusLine = (progress: Progress, elapsedMs: number): string =>
  [
    doingAfter(progress.stage),
    clock(elapsedMs),
    progress.turns === null ? null : counted(progress.turns, "turn"),
    progress.tools === 0 ? null : counted(progress.tools, "tool call"),
    progress.costUsd === null ? null : cost(progress.costUsd),
  ]
    .filter((part) => part !== null)
    .join(" · ");
