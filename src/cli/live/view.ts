import type { JobEvent } from "../../contract/event.ts";
import { painter } from "../print.ts";
import { createNarration, type Row } from "../../view/narration.ts";
import { plainLine } from "../../view/rows.ts";

/** Shows a job while it runs. */
export type View = {
  event: (event: JobEvent) => void;
  /** A note on the connection, not on the job. */
  note: (text: string) => void;
  /** Leaves the terminal as it was; idempotent. */
  close: () => void;
};

/** @param begin time of the submission, ms since the epoch, by the service's clock */
export const chooseView = async (stream: NodeJS.WriteStream, begin: number): Promise<View> => {
  const redraws = stream.isTTY && process.env.TERM !== "dumb";
  if (!redraws) return plainView(stream, begin);
  return (await import("./terminal-view.ts")).terminalView(stream, begin);
};

/** For `--json`: only the notes. */
export const quietView = (stream: NodeJS.WriteStream): View => ({
  event: () => undefined,
  note: (text) => stream.write(`${text}\n`),
  close: () => undefined,
});

/** For files and pipes: each line once, nothing is redrawn. Thinking is omitted. */
export const plainView = (stream: NodeJS.WriteStream, begin: number): View => {
  const narration = createNarration(begin);
  const paint = painter(stream);
  const write = (rows: Row[]) => {
    for (const row of rows) if (row.kind !== "thinking") stream.write(`${plainLine(row, paint)}\n`);
  };
  return {
    event: (event) => write(narration.add(event)),
    note: (text) => stream.write(`${text}\n`),
    close: () => write(narration.rest()),
  };
};
