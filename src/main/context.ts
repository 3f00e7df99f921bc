import type { Settings } from "../config/variables.ts";
import type { Context } from "../lib/context.ts";

/** Of the job orchestrator; `env`: its own environment, with its mark. */
export type ServiceContext = Context<Settings> & { env: NodeJS.ProcessEnv };
