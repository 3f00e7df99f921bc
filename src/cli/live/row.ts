/** One line of the account of a job, before it is fitted to a terminal or a file. */
export type Row = {
  kind: "stage" | "tool" | "text" | "thinking" | "note" | "problem";
  /** Time of the event, in ms since the job was submitted. */
  elapsedMs: number;
  /** Harmless for a terminal, without line breaks. */
  text: string;
};
