import type { AgentTurn, TurnEvent, TurnOutcome } from "../agents/agent.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationRecord, ConversationStore } from "../store/conversation-store.ts";
import type { EngineEvent, EngineTurn } from "./engine.ts";
import {
  prewarm,
  putIdle,
  startProcess,
  takeFresh,
  takeIdle,
  variantOf,
  type Pool,
  type ProcessOptions,
  type WarmProcess,
} from "./pool.ts";

type Dependencies = {
  agent: Pick<AgentPackage, "read" | "findTranscript" | "noteSession">;
  conversations: ConversationStore;
  pool: Pool;
  now: () => Date;
  log: Log;
};

type TurnProcess = {
  warm: WarmProcess;
  /** Its session has been given the conversation. */
  isInformed: boolean;
  /** It was idle before the turn: it may have died in the meantime. */
  wasIdle: boolean;
};

/**
 * Runs a turn in a process that fits. Afterwards the conversation is on record, and the process in the pool for its next
 * turn; a session without a conversation ends.
 */
export const runTurn = async function* (
  deps: Dependencies,
  turn: EngineTurn,
  deadline: number,
): AsyncGenerator<EngineEvent, void, void> {
  const { conversation: key } = turn;
  const record = await findRecord(deps, turn);
  const place = await findProcess(deps, turn, record);
  const { warm } = place;
  let isPooled = false;
  try {
    yield { type: "session", id: warm.process.sessionId };
    // The answer does not wait for it.
    if (!hadPrompt(warm)) void deps.agent.noteSession(warm.process.sessionId);
    const answers = earlierAnswers(place, record);
    // While the turn runs, so that it can be resumed whatever happens.
    const begun = key === null ? null : put(deps, { key, warm, record, answers, denied: 0 });
    const ran: Ran = { outcome: null, hasBegun: false, spoke: false, denied: 0 };
    for await (const event of warm.process.turn(askedOf(turn, place, deadline)))
      if (watch(ran, event, deps)) yield event;
    const outcome = outcomeIn(ran);
    if (mustRepeat(ran, outcome, place)) {
      await warm.process.end();
      if (key !== null && isForgotten(outcome, place)) await deps.conversations.remove(key);
      return yield* runTurn(deps, turn, deadline);
    }
    yield { type: "ended", outcome };
    if (key === null) return;
    await begun;
    const answer = outcome.ok ? turn.answerDigest() : unknownAnswer;
    putIdle(
      deps.pool,
      key,
      warm,
      await put(deps, { key, warm, record, answers: [...answers, answer], denied: ran.denied }),
    );
    isPooled = true;
  } finally {
    const ended = isPooled ? null : warm.process.end();
    // Never two processes on one session. Without a conversation nothing waits for the end.
    if (key !== null) await ended;
  }
};

/** The conversation that the turn continues; null: none. */
const findRecord = async (
  { conversations }: Dependencies,
  { conversation: key, mayResume }: EngineTurn,
): Promise<ConversationRecord | null> => {
  const found = key === null ? null : await conversations.get(key);
  return found !== null && (mayResume?.(found) ?? true) ? found : null;
};

const earlierAnswers = ({ isInformed }: TurnProcess, record: ConversationRecord | null): string[] =>
  (isInformed ? record?.answers : null) ?? [];

/** The state of a turn so far. `hasBegun`: the agent showed a sign of it. */
type Ran = { outcome: TurnOutcome | null; hasBegun: boolean; spoke: boolean; denied: number };

const outcomeIn = ({ outcome }: Ran): TurnOutcome => {
  if (outcome === null) throw new Error("the agent's turn has no outcome");
  return outcome;
};

/** Notes an event; false: it is the outcome, which is judged before it is passed on. */
const watch = (ran: Ran, event: TurnEvent, { pool, log }: Dependencies): boolean => {
  if (event.type === "ended") {
    ran.outcome = event.outcome;
    return false;
  }
  // Not earlier: starting a process takes processor time from the turn.
  if (!ran.spoke && (event.type === "thinking" || event.type === "text")) {
    ran.spoke = true;
    prewarm(pool);
  }
  if (event.type === "denied") {
    if (event.at_end) ran.denied += event.count;
    else log.warn({ name: event.name }, event.message);
  }
  ran.hasBegun ||= event.type !== "warning" && event.type !== "denied";
  return true;
};

/** The agent has not seen the turn, so that another process can run it. */
const mustRepeat = ({ hasBegun }: Ran, outcome: TurnOutcome, place: TurnProcess): boolean =>
  (place.wasIdle && !hasBegun && wasUnfit(outcome, place.warm)) || isForgotten(outcome, place);

const findProcess = async (
  { agent, pool }: Dependencies,
  turn: EngineTurn,
  record: ConversationRecord | null,
): Promise<TurnProcess> => {
  const { model, maxTurns, disabledMcpServers, conversation } = turn;
  const options: ProcessOptions = { loaded: await agent.read(), model, maxTurns, disabledMcpServers };
  if (record !== null && conversation !== null) {
    const own = await takeIdle(
      pool,
      conversation,
      ({ warm, version }) => version === record.updated_at && fits(warm, turn, options),
    );
    if (own !== null) return { warm: own, isInformed: hadPrompt(own), wasIdle: true };
    const transcript = await agent.findTranscript(record.session_id, record.cwd);
    if (transcript !== null) {
      const session = { id: record.session_id, resumeFrom: transcript, cwd: record.cwd };
      return { warm: await startProcess(pool, options, session), isInformed: true, wasIdle: false };
    }
  }
  return { ...(await takeFresh(pool, options)), isInformed: false };
};

/** A turn that was stopped before its prompt leaves a session that knows nothing. */
const hadPrompt = ({ resumes, process }: WarmProcess): boolean => resumes || process.turns() > 0;

const fits = (warm: WarmProcess, turn: EngineTurn, wanted: ProcessOptions): boolean =>
  warm.variant === variantOf(wanted) &&
  warm.appended === turn.appendSystemPrompt &&
  // An effort, once set, cannot be unset.
  (warm.effort === null || turn.effort !== null);

const askedOf = (turn: EngineTurn, { warm, isInformed }: TurnProcess, deadline: number): AgentTurn => {
  const isFirst = warm.process.turns() === 0;
  if (isFirst) warm.appended = turn.appendSystemPrompt;
  warm.effort = turn.effort ?? warm.effort;
  return {
    content: isInformed ? turn.followUp : turn.opening,
    appendSystemPrompt: isFirst ? turn.appendSystemPrompt : null,
    effort: turn.effort,
    principal: turn.principal,
    timeoutSeconds: Math.max(1, Math.ceil((deadline - performance.now()) / 1000)),
    signal: turn.signal,
  };
};

/** The process was dead or dying when it got the turn, or was stopped. */
const wasUnfit = ({ reason }: TurnOutcome, { process }: WarmProcess): boolean =>
  reason === "agent_exit" || (reason === "stalled" && process.turns() > 1);

/** The transcript exists but the CLI cannot use it: a new session must get the whole conversation. */
const isForgotten = ({ ok, error, numTurns }: TurnOutcome, { isInformed }: TurnProcess): boolean =>
  isInformed && !ok && (numTurns ?? 0) === 0 && /no conversation found/i.test(error ?? "");

type Recorded = {
  key: string;
  warm: WarmProcess;
  record: ConversationRecord | null;
  answers: string[];
  denied: number;
};

/** Puts the conversation on record. Never rejects; resolves to its version. */
const put = async (
  { conversations, now, log }: Dependencies,
  { key, warm, record, answers, denied }: Recorded,
): Promise<string> => {
  const at = now().toISOString();
  const { process, cwd } = warm;
  const isSame = record?.session_id === process.sessionId;
  await conversations
    .put(key, {
      session_id: process.sessionId,
      cwd,
      answers: answers.slice(-maxAnswers),
      denied: (record?.denied ?? 0) + denied,
      created_at: isSame ? record.created_at : at,
      updated_at: at,
    })
    .catch((err: unknown) => log.warn({ err }, "a conversation could not be put on record"));
  return at;
};

/** Stands for an answer of which the caller may have any part. */
export const unknownAnswer = "*";

const maxAnswers = 10_000;
