import type { JobEvent } from "../../contract/event.ts";

/** Shows a job as it goes on. */
export type View = {
  event: (event: JobEvent) => void;
  /** Something about the following itself, not about the job. */
  note: (text: string) => void;
  /** Leaves the terminal as it was; safe to call twice. */
  close: () => void;
};

/** @param begin time of the submission, ms since the epoch, by the service's clock */
export const chooseView = async (stream: NodeJS.WriteStream, begin: number): Promise<View> => {
  const redraws = stream.isTTY && process.env.TERM !== "dumb";
  if (!redraws) return (await import("./plain-view.ts")).plainView(stream, begin);
  return (await import("./terminal-view.ts")).terminalView(stream, begin);
};

/** For `--json`: only what goes wrong with the following is told. */
export const quietView = (stream: NodeJS.WriteStream): View => ({
  event: () => undefined,
  note: (text) => stream.write(`${text}\n`),
  close: () => undefined,
});
