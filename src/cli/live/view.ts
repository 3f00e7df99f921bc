import type { JobEvent } from "../../contract/event.ts";
import type { StageName } from "../../contract/job.ts";
import { painter } from "../print.ts";
import { createNarration, type Row } from "../../view/narration.ts";
import { pauseNote } from "../../view/waiting.ts";
import { createBlocks, plainLine } from "../../view/rows.ts";

/** Shows a job while it runs. */
export type View = {
  event: (event: JobEvent) => void;
  /** A note on the connection, not on the job. */
  note: (text: string) => void;
  /** Leaves the terminal to a question. What comes meanwhile is shown when it is taken up again. */
  pause: () => void;
  resume: () => void;
  /** Leaves the terminal as it was; idempotent. */
  close: () => void;
};

export type Shown = {
  /** Lines of a tool's result that are shown; absent: none. */
  results?: number;
  /** Where a job stands before its first event. */
  stage?: StageName;
};

/** @param begin time of the submission, ms since the epoch, by the service's clock */
export const chooseView = async (stream: NodeJS.WriteStream, begin: number): Promise<View> =>
  redraws(stream)
    ? (await import("./terminal-view.ts")).terminalView(stream, begin)
    : plainView(stream, begin);

/** For an answer, whose words are all that a file or a pipe gets: rows as on a terminal, each once and whole. */
export const chooseAnswerView = async (stream: NodeJS.WriteStream, results: number): Promise<View> => {
  if (redraws(stream)) {
    const { terminalView } = await import("./terminal-view.ts");
    return terminalView(stream, Date.now(), { results, stage: "agent_started" });
  }
  const paint = painter(stream);
  const blocks = createBlocks(() => ({ paint, columns: stream.columns || Infinity }));
  return rowsView(stream, createNarration(0, { results }), (row) => blocks.add(row));
};

const redraws = (stream: NodeJS.WriteStream): boolean => stream.isTTY && process.env.TERM !== "dumb";

/** What is not redrawn is in nobody's way. */
const unpaused = { pause: () => undefined, resume: () => undefined };

/** For `--json`: only the notes. */
export const quietView = (stream: NodeJS.WriteStream): View => ({
  ...unpaused,
  event: (event) => {
    const said = pauseNote(event);
    if (said !== null) stream.write(`The job ${said}\n`);
  },
  note: (text) => stream.write(`${text}\n`),
  close: () => undefined,
});

/** For files and pipes: a line for each row. Thinking is omitted. */
export const plainView = (stream: NodeJS.WriteStream, begin: number): View => {
  const paint = painter(stream);
  return rowsView(stream, createNarration(begin), (row) =>
    row.kind === "thinking" ? [] : [plainLine(row, paint)],
  );
};

/** Each row once: nothing is redrawn. */
const rowsView = (
  stream: NodeJS.WriteStream,
  narration: ReturnType<typeof createNarration>,
  linesOf: (row: Row) => string[],
): View => {
  const write = (rows: Row[]): void => {
    for (const line of rows.flatMap(linesOf)) stream.write(`${line}\n`);
  };
  return {
    ...unpaused,
    event: (event) => write(narration.add(event)),
    note: (text) => stream.write(`${text}\n`),
    close: () => write(narration.rest()),
  };
};
