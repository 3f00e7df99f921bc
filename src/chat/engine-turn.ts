import type { TurnOutcome } from "../agents/agent.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationRecord, ConversationStore } from "../store/conversation-store.ts";
import type { EngineTurn } from "./engine.ts";
import {
  prewarm,
  putIdle,
  resume,
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

export type RanTurn = {
  outcome: TurnOutcome;
  sessionId: string;
  /** Resolves when the conversation is recorded and its process is in the pool: only then may its next turn begin. */
  settled: Promise<void>;
};

/** A turn's process: its session isInformed the conversation, or must be given it. */
type TurnProcess = {
  warm: WarmProcess;
  isInformed: boolean;
  /** The process was idle before the turn: it may have died in the meantime. */
  wasIdle: boolean;
};

/** `hasBegun`: the agent showed a sign of having begun the turn. */
type TurnResult = { outcome: TurnOutcome; hasBegun: boolean };

/**
 * Finds a process for a turn, runs the turn in it, and puts the process into the pool for the conversation's next one.
 */
export const createTurnRunner = (deps: Dependencies) => {
  const { agent, conversations, pool, log } = deps;

  const processFor = async (turn: EngineTurn, record: ConversationRecord | null): Promise<TurnProcess> => {
    const { model, maxTurns, disabledMcpServers, conversation } = turn;
    const options: ProcessOptions = { loaded: await agent.read(), model, maxTurns, disabledMcpServers };
    if (record !== null && conversation !== null) {
      const own = await takeIdle(
        pool,
        conversation,
        ({ warm, version }) => version === record.updated_at && fits(warm, turn, options),
      );
      if (own !== null) return { warm: own, isInformed: hadPrompt(own), wasIdle: true };
      const transcript = await agent.findTranscript(record.session_id);
      if (transcript !== null) {
        const session = { id: record.session_id, resumeFrom: transcript, cwd: record.cwd };
        return { warm: await resume(pool, options, session), isInformed: true, wasIdle: false };
      }
    }
    return { ...(await takeFresh(pool, options)), isInformed: false };
  };

  const prompt = async (
    turn: EngineTurn,
    { warm, isInformed }: TurnProcess,
    deadline: number,
  ): Promise<TurnResult> => {
    const isFirst = warm.process.turns() === 0;
    if (isFirst) warm.appended = turn.appendSystemPrompt;
    warm.effort = turn.effort ?? warm.effort;
    let hasBegun = false;
    let spoke = false;
    const publish: EngineTurn["onEvents"] = (events) => {
      try {
        turn.onEvents(events);
        if (spoke || !events.some(({ type }) => type === "thinking" || type === "text")) return;
        spoke = true;
        prewarm(pool);
      } catch (err) {
        log.error({ err }, "what the agent said could not be passed on");
        throw err;
      }
    };
    const outcome = await warm.process.turn({
      content: isInformed ? turn.followUp : turn.opening,
      appendSystemPrompt: isFirst ? turn.appendSystemPrompt : null,
      effort: turn.effort,
      timeoutSeconds: Math.max(1, Math.ceil((deadline - performance.now()) / 1000)),
      signal: turn.signal,
      onEvents: (events) => {
        hasBegun ||= events.some(({ type }) => type !== "warning");
        publish(events);
      },
    });
    return { outcome, hasBegun };
  };

  /** Records the conversation while its turn runs, so that it can be resumed whatever happens. */
  const begin = (key: string, { warm, isInformed }: TurnProcess, found: ConversationRecord | null) => {
    const before = isInformed ? found : null;
    const put = async (answers: string[]): Promise<string> => {
      const at = deps.now().toISOString();
      const { sessionId } = warm.process;
      const record = {
        session_id: sessionId,
        cwd: warm.cwd,
        answers: answers.slice(-maxAnswers),
        created_at: before?.created_at ?? at,
        updated_at: at,
      };
      await conversations
        .put(key, record)
        .catch((err: unknown) => log.warn({ err }, "a conversation could not be put on record"));
      return at;
    };
    const answers = before?.answers ?? [];
    const begun = put(answers);
    return async (answer: string): Promise<void> => {
      await begun;
      putIdle(pool, key, warm, await put([...answers, answer]));
    };
  };

  const run = async (turn: EngineTurn, deadline: number): Promise<RanTurn> => {
    const { conversation: key } = turn;
    const found = key === null ? null : await conversations.get(key);
    const record = found !== null && (turn.mayResume?.(found) ?? true) ? found : null;
    const turnProcess = await processFor(turn, record);
    try {
      return await runIn(turnProcess, turn, record, deadline);
    } catch (error) {
      // A failure of this code, not of the agent: the state of the turn is unknown.
      await turnProcess.warm.process.end();
      throw error;
    }
  };

  const runIn = async (
    place: TurnProcess,
    turn: EngineTurn,
    record: ConversationRecord | null,
    deadline: number,
  ): Promise<RanTurn> => {
    const { conversation: key } = turn;
    const { process } = place.warm;
    turn.onSession?.(process.sessionId);
    // The answer does not wait for it.
    if (!place.warm.resumes && process.turns() === 0) void agent.noteSession(process.sessionId);
    const end = key === null ? () => process.end() : begin(key, place, record);
    const { outcome, hasBegun } = await prompt(turn, place, deadline);
    const isStuck = outcome.reason === "stalled" && process.turns() > 1;
    if (place.wasIdle && !hasBegun && (isStuck || outcome.reason === "agent_exit")) {
      // The process was dead or dying when it got the turn, or was stopped.
      await process.end();
      return run(turn, deadline);
    }
    if (isForgotten(outcome, place)) {
      // The transcript exists but the CLI cannot use it: begin a new session with the whole conversation.
      await process.end();
      if (key !== null) await conversations.remove(key);
      return run(turn, deadline);
    }
    const digest = turn.answerDigest(outcome);
    const settled = end(outcome.ok ? digest : unknownAnswer).catch((err: unknown) =>
      log.error({ err }, "a turn could not be brought to its end"),
    );
    return { outcome, sessionId: process.sessionId, settled };
  };
  return { run };
};

/** A turn that was stopped before its prompt leaves a session that isInformed nothing. */
const hadPrompt = ({ resumes, process }: WarmProcess): boolean => resumes || process.turns() > 0;

/** Whether an idle process fits this turn. */
const fits = (warm: WarmProcess, turn: EngineTurn, wanted: ProcessOptions): boolean =>
  warm.variant === variantOf(wanted) &&
  warm.appended === turn.appendSystemPrompt &&
  // An effort, once set, cannot be unset.
  (warm.effort === null || turn.effort !== null);

const isForgotten = ({ ok, error, numTurns }: TurnOutcome, { isInformed }: TurnProcess): boolean =>
  isInformed && !ok && (numTurns ?? 0) === 0 && /no conversation found/i.test(error ?? "");

/** Stands for an answer of which the caller may have any part. */
export const unknownAnswer = "*";

const maxAnswers = 10_000;
