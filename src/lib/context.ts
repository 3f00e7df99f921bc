import type { Log } from "./log.ts";
import type { Redactor } from "./redact.ts";

/** What most parts of a program need, made once at its start. */
export type Context<Settings> = {
  settings: Settings;
  /** The clock that all instances use. */
  now: () => Date;
  newId: () => string;
  /** Hides the program's secrets. */
  redact: Redactor;
  log: Log;
  /** Aborted when the program shuts down. */
  signal: AbortSignal;
};
