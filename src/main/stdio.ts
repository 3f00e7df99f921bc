import { randomUUID } from "node:crypto";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { createLog, type Log } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { openStdio } from "../mcp/stdio.ts";
import { answerThrough } from "./front.ts";
import { holderOf, InstanceHeldError, type Holder } from "./instance-lock.ts";
import type { Orchestrator } from "./orchestrator.ts";
import { stateDirectory } from "./state-directory.ts";
import { mcpIdentity } from "./version.ts";

type Start = { settings: Settings; warnings: string[]; env: NodeJS.ProcessEnv };

/**
 * MCP on stdin and stdout. Clients start a process each, but a directory of jobs belongs to one service: the first one
 * is that service; where one runs already that can be asked over HTTP, this process passes on what it is asked.
 * @param signal aborted: the start is given up
 */
export const startStdio = async (start: Start, signal: AbortSignal): Promise<Orchestrator> => {
  const { settings, env } = start;
  const directory = stateDirectory(settings);
  const log = createLog(settings.logLevel, createRedactor(secretValues(settings, env)));
  const held = (): Promise<Holder | null> =>
    holderOf(directory, signal, ({ pid }, seconds) => {
      const what = "another process uses the job records and serves another client on its stdin";
      log.warn({ pid, jobs_dir: directory }, `${what}: waiting up to ${seconds} s for it to end`);
    });
  let holder = await held();
  if (holder === null) {
    const { startOrchestrator } = await import("./orchestrator.ts");
    try {
      return await startOrchestrator(start);
    } catch (error) {
      // Another one was faster.
      if (!(error instanceof InstanceHeldError)) throw error;
      holder = await held();
    }
  }
  if (holder === null) throw new Error(`The service that used ${directory} has just ended; start again`);
  if (holder.url === null) {
    throw new Error(
      `Process ${holder.pid} uses ${directory} and serves another client on its stdin: run svc serve with SERVICE_TRANSPORT=sse, and each client's stdio process will pass on to it; or set SERVICE_JOBS_DIR to a directory of its own`,
    );
  }
  return startFront(start, log, holder.url);
};

const startFront = ({ settings, warnings }: Start, log: Log, url: string): Orchestrator => {
  for (const warning of warnings) log.warn(warning);
  const answer = answerThrough({ url, apiKey: settings.apiKey ?? settings.apiKeys[0], log });
  const parts = { agent: settings.agentMode };
  const stdio = openStdio({ answer, service: mcpIdentity, parts, log, newRequestId: randomUUID });
  log.info({ url }, "serving on stdin and stdout for the service that runs already");
  return { url: null, gone: stdio.gone, stop: stdio.close };
};
