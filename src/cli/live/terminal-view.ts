import { createLogUpdate } from "log-update";
import { painter } from "../text/paint.ts";
import { cut } from "../text/width.ts";
import { createNarration } from "./narration.ts";
import { advance, noProgress, statusLine } from "./progress.ts";
import type { Row } from "./row.ts";
import { terminalLines } from "./terminal-line.ts";
import type { View } from "./view.ts";

/** For terminals: the account scrolls above one status line that is drawn again and again. */
export const terminalView = (stream: NodeJS.WriteStream, begin: number): View => {
  // The cursor stays: nothing has to be put right after a kill.
  const draw = createLogUpdate(stream, { showCursor: true });
  const paint = painter(stream);
  const narration = createNarration(begin);
  let progress = noProgress;
  let pending: string[] = [];
  // The service's clock may differ from ours: the time of its latest event, plus what has passed here since then.
  let latest = { elapsedMs: 0, at: performance.now() };
  let frame = 0;

  // Some terminals say that they have no columns at all.
  const columns = (): number => Math.max(20, stream.columns || 80);
  const show = (rows: Row[]): void => {
    for (const row of rows) pending.push(...terminalLines(row, { paint, columns: columns() }));
    // A flood must not wait for the next frame in memory.
    if (pending.length > 200) redraw();
  };

  const redraw = (): void => {
    if (pending.length > 0) draw.persist(pending.join("\n"));
    pending = [];
    const elapsed = latest.elapsedMs + performance.now() - latest.at;
    const open = narration.open();
    const writing = open === null ? [] : terminalLines(open, { paint, columns: columns() }).slice(-3);
    const spinner = spinnerFrames[Math.floor(frame++ / 2) % spinnerFrames.length] ?? "";
    const status = cut(`${spinner} ${statusLine(progress, elapsed)}`, columns() - 1);
    draw([...writing, paint("dim", status)].join("\n"));
  };
  const timer = setInterval(redraw, 60);
  let closed = false;

  return {
    event: (event) => {
      progress = advance(progress, event);
      const elapsedMs = Math.max(latest.elapsedMs, Date.parse(event.at) - begin);
      latest = { elapsedMs, at: performance.now() };
      show(narration.take(event));
    },
    note: (text) => show([{ kind: "problem", elapsedMs: latest.elapsedMs, text }]),
    close: () => {
      if (closed) return;
      closed = true;
      clearInterval(timer);
      show(narration.rest());
      if (pending.length > 0) draw.persist(pending.join("\n"));
      else draw.clear();
      draw.done();
    },
  };
};

const spinnerFrames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
