import type { Settings } from "../../config/variables.ts";
import type { Redactor } from "../../lib/redact.ts";

export type Diagnosis = {
  settings: Settings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  redact: Redactor;
  /** Asks neither the git host nor the model, starts no agent, and writes nothing. */
  offline: boolean;
  /** Lets the real model answer one turn: the usual one, or the one of this name. */
  askModel: boolean | string;
};

/** Not as it should be, but jobs can run. Any other error is a fault. */
export class Warning extends Error {}
