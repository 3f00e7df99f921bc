import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { sampleBegin, sampleLog } from "../../../test/cli/sample-job.ts";
import { until } from "../../../test/until.ts";
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

test("the account scrolls above one status line, which is gone at the end", async () => {
  const { stream, written } = terminal();
  const view = terminalView(stream, sampleBegin);
  const [stage, tool, text, open] = sampleLog(
    { type: "stage", stage: "first_output", detail: null },
    { type: "tool_use", id: "1", name: "Bash", input: { command: "npm test" }, parent: null },
    { type: "text", block: 0, text: "A line.\nHalf a li" },
    { type: "text", block: 0, text: "ne" },
  );
  for (const event of [stage, tool, text]) if (event) view.event(event);
  await until(
    () => written().includes("agent at work · 0:02 · 1 tool call") && written().includes("Half a li"),
  );
  if (open) view.event(open);
  view.note("The service is away");
  view.close();
  view.close();
  const end = written();
  expect(lastFrame(end)).toContain("The service is away");
  expect(lastFrame(end)).not.toContain("agent at work");
  expect(end).toContain("Half a line");
  await new Promise((resolve) => setImmediate(resolve));
  expect(written()).toBe(end);
});

/** What was written after the last erasing of lines. */
const lastFrame = (written: string): string => written.slice(written.lastIndexOf("\u001b[2K"));
