import { setTimeout as delay } from "node:timers/promises";
import type { TurnOutcome } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import type { OnLimit } from "../profiles/definition.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { added, nextAfter, type LimitSettings, type ModelCredential, type Next, type Try } from "./limit.ts";
import { spentBy } from "./turn.ts";

export type Again = { credential: ModelCredential; settings: LimitSettings; now: () => Date };

type Agents<Outcome extends TurnOutcome> = {
  record: JobRecord;
  run: Run;
  onLimit: OnLimit | null;
  /** What its processes have come to so far. */
  progress: { agent: TurnOutcome | null };
  /** Runs one process. */
  start: (record: JobRecord, tried: Try) => Promise<Outcome>;
};

/** Runs the agent, and starts it again where its session goes on in this run; `then`: what becomes of the job. */
export const runUntilOver = async <Outcome extends TurnOutcome>(
  { credential, settings, now }: Again,
  { record, run, onLimit, progress, start }: Agents<Outcome>,
): Promise<{ agent: Outcome; then: Next }> => {
  let tried: Try = { overloads: 0, usesKey: false };
  let agent = await start(record, tried);
  for (;;) {
    progress.agent = agent;
    const given = { record, agent, tried, onLimit, credential, settings };
    const then = nextAfter({ ...given, now: now(), random: Math.random() });
    if (then.kind !== "again") return { agent, then };
    run.warn(then.warning);
    await delay(then.pauseSeconds * 1000, undefined, { signal: run.signal });
    tried = then.tried;
    agent = added(agent, await start(goingOn(record, agent, now()), tried));
  }
};

/** The job as the next process of its run finds it. */
const goingOn = (record: JobRecord, agent: TurnOutcome, at: Date): JobRecord => ({
  ...record,
  ...agentFacts(record, agent),
  asked: null,
  resumed_at: at.toISOString(),
  worked_ms: record.worked_ms + agent.durationMs,
});

/** What the agent's outcome adds to a job, however it ended. */
export const agentFacts = (record: JobRecord, agent: TurnOutcome): JobPatch => ({
  exit_code: agent.exitCode,
  output: agent.text === "" ? null : agent.text,
  num_turns: agent.numTurns === null ? record.num_turns : (record.num_turns ?? 0) + agent.numTurns,
  ...spentBy(record, agent),
  ...(agent.sessionId === null ? {} : { session_id: agent.sessionId }),
  ...(agent.model === null ? {} : { model: agent.model }),
});
