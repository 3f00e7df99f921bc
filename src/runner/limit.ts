import { addUsage, type Waiting } from "../contract/job.ts";
import type { TurnOutcome } from "../agents/agent.ts";
import type { OnLimit } from "../profiles/definition.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";

export type LimitSettings = {
  /** All in seconds. */
  limitJitter: number;
  /** Of a limit without a reset time: the first time, the next, …; the last one counts for all further ones. */
  limitPauses: readonly number[];
  limitWaits: number;
  limitTtl: number;
  overloadRetries: number;
  overloadPauses: readonly number[];
};

/** What agents of this instance use for the model. */
export type ModelCredential = {
  digest: string;
  /** Whether there is ANTHROPIC_API_KEY beside it. */
  hasOtherKey: boolean;
  /** What becomes of a job at a limit, unless its profile says so. */
  usualAtLimit: "wait" | "fail";
};

/** How the agent's process in a run has been started: after so many overloads, and whether with ANTHROPIC_API_KEY. */
export type Try = { overloads: number; usesKey: boolean };

type Failed = {
  record: JobRecord;
  agent: Pick<TurnOutcome, "ok" | "reason" | "retryable" | "apiStatus" | "limitResetsAt">;
  tried: Try;
  onLimit: OnLimit | null;
  credential: ModelCredential;
  settings: LimitSettings;
  now: Date;
  /** From 0 to 1. */
  random: number;
  /** What is left of the job's wall time. */
  secondsLeft: number;
};

/** `again`: after a pause, in the same run, `isAway`: for the model does not answer; `park`: by the next run. Neither gets the prompt again. */
export type Next =
  | { kind: "end" }
  | { kind: "again"; pauseSeconds: number; tried: Try; warning: string; isAway: boolean }
  | { kind: "park"; patch: JobPatch };

/**
 * What becomes of a job whose agent's turn is over.
 *
 * | the turn failed by   | `on_limit`  | and                                             | next                        |
 * |----------------------|-------------|-------------------------------------------------|-----------------------------|
 * | `rate_limited`       | `api_key`   | there is another key, which is not used yet     | again, at once, with the key |
 * | `rate_limited`       | `wait`      | it may wait once more, until then               | park                        |
 * | `api_error` that may pass |        | it was retried less than SERVICE_OVERLOAD_RETRIES, and the pause ends within its wall time | again, after the pause |
 * | anything else        |             |                                                 | end                         |
 */
export const nextAfter = (failed: Failed): Next => {
  const { agent, tried, credential, settings } = failed;
  if (agent.reason === "rate_limited") {
    const onLimit = failed.onLimit ?? credential.usualAtLimit;
    if (onLimit === "api_key" && credential.hasOtherKey && !tried.usesKey) return withKey(tried);
    return onLimit === "wait" ? parkedFor(failed) : { kind: "end" };
  }
  const isOverload = agent.reason === "api_error" && agent.retryable;
  if (!isOverload || tried.overloads >= settings.overloadRetries) return { kind: "end" };
  const overloads = tried.overloads + 1;
  const pauseSeconds = nth(settings.overloadPauses, overloads);
  if (pauseSeconds >= failed.secondsLeft) return { kind: "end" };
  const status = agent.apiStatus === null ? "did not answer" : `answered ${agent.apiStatus}`;
  const warning = `The model ${status}; the agent went on after ${pauseSeconds} s, try ${overloads} of ${settings.overloadRetries}`;
  return { kind: "again", pauseSeconds, tried: { ...tried, overloads }, warning, isAway: true };
};

const withKey = (tried: Try): Next => ({
  kind: "again",
  pauseSeconds: 0,
  isAway: false,
  tried: { ...tried, usesKey: true },
  warning: "The usage limit of the model's credential is reached; the agent goes on with ANTHROPIC_API_KEY",
});

/** A reset time that is over says nothing. The jitter, a part of a tenth of the wait, spreads the jobs that go on. */
const parkedFor = ({ record, agent, credential, settings, now, random }: Failed): Next => {
  const { waits = 0, since = now.toISOString() } = record.limit ?? {};
  const first = waits === 0 ? now.toISOString() : since;
  const resets = agent.limitResetsAt === null ? 0 : Date.parse(agent.limitResetsAt) - now.getTime();
  const wait = resets > 0 ? resets : nth(settings.limitPauses, waits + 1) * 1000;
  const most = Math.min(wait / 10, settings.limitJitter * 1000);
  const until = now.getTime() + wait + Math.max(1000, random * most);
  if (waits >= settings.limitWaits || until > Date.parse(first) + settings.limitTtl * 1000)
    return { kind: "end" };
  const waiting = waitingUntil("limit", `limit_${waits + 1}`, { now, until });
  const limit = { credential: credential.digest, waits: waits + 1, since: first };
  return { kind: "park", patch: { waiting, limit, output: null } };
};

/** A wait that needs no answer. `until`: ms since the epoch. */
export const waitingUntil = (
  kind: "limit" | "model",
  id: string,
  { now, until }: { now: Date; until: number },
): Waiting => {
  const times = { asked_at: now.toISOString(), until: new Date(until).toISOString() };
  return { kind, id, questions: [], plan: null, ...times };
};

/** The first is 1; the last one counts for all further ones. */
const nth = (pauses: readonly number[], number: number): number =>
  pauses[Math.min(number, pauses.length) - 1] ?? 0;

/** Two processes of a run as one: what the later one shows, and what both have cost. */
export const added = <Outcome extends TurnOutcome>(earlier: Outcome, later: Outcome): Outcome => ({
  ...later,
  prompted: earlier.prompted || later.prompted,
  numTurns: sum(earlier.numTurns, later.numTurns),
  costUsd: sum(earlier.costUsd, later.costUsd),
  costEstimated: earlier.costEstimated || later.costEstimated,
  usage: addUsage(earlier.usage, later.usage),
  durationMs: earlier.durationMs + later.durationMs,
});

const sum = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : a + b;
