import { setTimeout as delay } from "node:timers/promises";
import type { TurnOutcome } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import { cutEnd } from "../lib/tail-buffer.ts";
import type { OnLimit } from "../profiles/definition.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { isApproved } from "./asking.ts";
import { added, nextAfter, waitingUntil } from "./limit.ts";
import type { LimitSettings, ModelCredential, Next, Try } from "./limit.ts";
import { type JobTurnOutcome, LostOwnership, spentBy } from "./turn.ts";

export type Again = { credential: ModelCredential; settings: LimitSettings; now: () => Date };

type Agents<Outcome extends JobTurnOutcome> = {
  record: JobRecord;
  run: Run;
  onLimit: OnLimit | null;
  /** What its processes have come to so far. */
  progress: { agent: TurnOutcome | null };
  /** What the job has left of its wall time. */
  secondsLeft: () => number;
  /** Runs one process. */
  start: (record: JobRecord, tried: Try) => Promise<Outcome>;
};

/** Runs the agent, again where its session goes on in this run; `then`: what becomes of the job, whose slot a pause keeps. */
export const runUntilOver = async <Outcome extends JobTurnOutcome>(
  { credential, settings, now }: Again,
  { record, run, onLimit, progress, secondsLeft, start }: Agents<Outcome>,
): Promise<{ agent: Outcome; then: Next }> => {
  let tried: Try = { overloads: 0, usesKey: false };
  let agent = await start(record, tried);
  for (;;) {
    progress.agent = agent;
    const given = { record, agent, tried, onLimit, credential, settings };
    const then = nextAfter({ ...given, now: now(), random: Math.random(), secondsLeft: secondsLeft() });
    if (then.kind !== "again") return { agent, then };
    if (then.isAway) await tellPause(run, agent, { ...then, now: now(), most: settings.overloadRetries });
    await delay(then.pauseSeconds * 1000, undefined, { signal: run.signal });
    run.warn(then.warning);
    tried = then.tried;
    agent = added(agent, await start(asLeft(record, agent), tried));
  }
};

type Pause = { pauseSeconds: number; tried: Try; now: Date; most: number };

/** Says when the model is asked again. The start of the next process ends the wait. @throws LostOwnership */
const tellPause = async (
  run: Run,
  { apiStatus: status, text }: TurnOutcome,
  { pauseSeconds, tried: { overloads: retry }, now, most }: Pause,
): Promise<void> => {
  const delay_ms = pauseSeconds * 1000;
  const waiting = waitingUntil("model", `model_${retry}`, { now, until: now.getTime() + delay_ms });
  if (!(await run.record({ waiting }))) throw new LostOwnership("another run owns the job");
  const error = cutEnd(text, 300);
  run.event({ type: "retry", retry, max_retries: most, delay_ms, status, error, by: "service" });
};

/** The job as the next process of its run finds it. */
const asLeft = (record: JobRecord, agent: JobTurnOutcome): JobRecord => ({
  ...record,
  ...agentFacts(record, agent),
  asked: null,
  plan_approved: isApproved(record),
});

/** What the agent's outcome adds to a job, however it ended. */
export const agentFacts = (record: JobRecord, agent: JobTurnOutcome): JobPatch => ({
  exit_code: agent.exitCode,
  output: agent.text === "" ? null : agent.text,
  num_turns: agent.numTurns === null ? record.num_turns : (record.num_turns ?? 0) + agent.numTurns,
  ...spentBy(record, agent),
  ...(agent.sessionId === null ? {} : { session_id: agent.sessionId, session_cwd: agent.sessionCwd }),
  ...(agent.model === null ? {} : { model: agent.model }),
});
