import { Writable } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { sampleBegin, sampleLog } from "../../../test/cli/sample-job.ts";
import { sanitise } from "../../view/sanitise.ts";
import { terminalView } from "./terminal-view.ts";

/** Enough of a terminal for a view: it has a size and keeps what is written. */
const terminal = () => {
  let written = "";
  const stream = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      written += chunk.toString();
      done();
    },
  });
  const sized = Object.assign(stream, { isTTY: true, columns: 60, rows: 20 });
  return { stream: sized as unknown as NodeJS.WriteStream, written: () => written };
};

afterEach(() => {
  vi.useRealTimers();
});

test("the account scrolls above one status line, which is gone at the end", () => {
  vi.useFakeTimers();
  const { stream, written } = terminal();
  const view = terminalView(stream, sampleBegin);
  const [stage, tool, text, open] = sampleLog(
    { type: "stage", stage: "first_output", detail: null },
    { type: "tool_use", id: "1", name: "Bash", input: { command: "npm test" }, parent: null },
    { type: "text", block: 0, text: "A line.\nHalf a li" },
    { type: "text", block: 0, text: "ne" },
  );
  for (const event of [stage, tool, text]) if (event) view.event(event);
  vi.advanceTimersByTime(100);
  expect(lastFrame(written())).toMatch(/Half a li\s[^]*agent at work · 0:02 · 1 tool call/);
  vi.advanceTimersByTime(5000);
  expect(lastFrame(written())).toContain("agent at work · 0:07 · 1 tool call");
  if (open) view.event(open);
  view.note("The service is away");
  view.close();
  view.close();
  expect(lastFrame(written())).toMatch(/The service is away\s[^]*Half a line/);
  expect(lastFrame(written())).not.toContain("agent at work");
  expect(vi.getTimerCount()).toBe(0);
});

test("a flood of events does not wait in memory for the next frame", () => {
  vi.useFakeTimers();
  const { stream, written } = terminal();
  const view = terminalView(stream, sampleBegin);
  const [event] = sampleLog({ type: "text", block: 0, text: "x\n".repeat(300) });
  if (event) view.event(event);
  expect(written()).toContain("x");
  view.close();
});

/** What was written after the last erasing of lines, without its colours. */
const lastFrame = (written: string): string =>
  sanitise(written.slice(Math.max(0, written.lastIndexOf("\u001b[2K"))));
