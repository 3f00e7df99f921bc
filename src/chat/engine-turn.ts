import type { TurnOutcome } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationRecord, ConversationStore } from "../store/conversation-store.ts";
import { maskEvents } from "../store/mask-events.ts";
import type { EngineTurn } from "./engine.ts";
import type { IdlePool } from "./idle-pool.ts";
import { variantOf, type WarmProcess, type WarmProcesses, type ProcessOptions } from "./processes.ts";
import type { Prewarmed } from "./prewarmed.ts";

type Dependencies = {
  agent: Pick<AgentPackage, "read" | "findTranscript">;
  conversations: ConversationStore;
  seats: Pick<WarmProcesses, "fresh" | "resumed">;
  spares: Pick<Prewarmed, "take" | "refill">;
  kept: Pick<IdlePool, "take" | "put">;
  /** Takes configured secrets out of what the agent says. */
  redact: Redactor;
  now: () => Date;
  log: Log;
};

export type RanTurn = {
  outcome: TurnOutcome;
  sessionId: string;
  /** Resolves when the conversation is on record and its process is put away: only then may its next turn begin. */
  settled: Promise<void>;
};

/** A turn's process: a session that knows what was said before, or one that is to be told. */
type Place = {
  seat: WarmProcess;
  knows: boolean;
  /** The process was there before the turn: it may have died while nobody looked. */
  waited: boolean;
};

/** `heard`: the agent gave a sign of having taken the turn up. */
type Said = { outcome: TurnOutcome; heard: boolean };

/** Finds the process for a turn, runs it there, and keeps the process for the conversation's next one. */
export const createTurnRunner = (deps: Dependencies) => {
  const { agent, conversations, seats, spares, kept, redact, log } = deps;

  const placeFor = async (turn: EngineTurn, record: ConversationRecord | null): Promise<Place> => {
    const { model, maxTurns, disabledMcpServers, conversation } = turn;
    const wanted: ProcessOptions = { loaded: await agent.read(), model, maxTurns, disabledMcpServers };
    if (record !== null && conversation !== null) {
      const own = await kept.take(conversation, record.updated_at);
      if (own !== null && isGoodFor(own, turn, wanted))
        return { seat: own, knows: wasTold(own), waited: true };
      // Never two processes on one session.
      await own?.process.end();
      const transcript = await agent.findTranscript(record.session_id);
      if (transcript !== null) {
        const session = { id: record.session_id, resumeFrom: transcript, cwd: record.cwd };
        return { seat: await seats.resumed(wanted, session), knows: true, waited: false };
      }
    }
    const spare = spares.take(wanted);
    return { seat: spare ?? (await seats.fresh(wanted)), knows: false, waited: spare !== null };
  };

  const say = async (turn: EngineTurn, { seat, knows }: Place, deadline: number): Promise<Said> => {
    const isFirst = seat.process.turns() === 0;
    if (isFirst) seat.appended = turn.appendSystemPrompt;
    seat.effort = turn.effort ?? seat.effort;
    let heard = false;
    let spoke = false;
    const mask = masked(redact, (events) => {
      turn.onEvents(events);
      if (spoke || !events.some(({ type }) => type === "thinking" || type === "text")) return;
      spoke = true;
      spares.refill();
    });
    const tell: EngineTurn["onEvents"] = (events) => {
      try {
        mask(events);
      } catch (err) {
        log.error({ err }, "what the agent said could not be passed on");
        throw err;
      }
    };
    const outcome = await seat.process.turn({
      content: knows ? turn.news : turn.whole,
      appendSystemPrompt: isFirst ? turn.appendSystemPrompt : null,
      // That of the process.
      model: null,
      effort: turn.effort,
      timeoutSeconds: Math.max(1, Math.ceil((deadline - performance.now()) / 1000)),
      signal: turn.signal,
      onEvents: (events) => {
        heard ||= events.some(({ type }) => type !== "warning");
        tell(events);
      },
    });
    // What was held back for the rest of a secret that never came.
    tell([{ type: "block_end", block: -1 }]);
    const { text, error } = outcome;
    const masking = { text: redact(text), error: error === null ? null : redact(error) };
    return { outcome: { ...outcome, ...masking }, heard };
  };

  /** Puts the conversation on record while its turn is under way, so that it can be resumed whatever happens. */
  const begin = (key: string, { seat, knows }: Place, found: ConversationRecord | null) => {
    const before = knows ? found : null;
    const put = async (answers: string[]): Promise<string> => {
      const at = deps.now().toISOString();
      const { sessionId } = seat.process;
      const record = {
        session_id: sessionId,
        cwd: seat.cwd,
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
      await kept.put(key, seat, await put([...answers, answer]));
    };
  };

  const run = async (turn: EngineTurn, deadline: number): Promise<RanTurn> => {
    const { conversation: key } = turn;
    const found = key === null ? null : await conversations.get(key);
    const record = found !== null && (turn.mayResume?.(found) ?? true) ? found : null;
    const place = await placeFor(turn, record);
    try {
      return await runIn(place, turn, record, deadline);
    } catch (error) {
      // Not what the agent does, that is an outcome: nobody knows where the turn got to.
      await place.seat.process.end();
      throw error;
    }
  };

  const runIn = async (
    place: Place,
    turn: EngineTurn,
    record: ConversationRecord | null,
    deadline: number,
  ): Promise<RanTurn> => {
    const { conversation: key } = turn;
    const { process } = place.seat;
    turn.onSession?.(process.sessionId);
    const end = key === null ? () => process.end() : begin(key, place, record);
    const { outcome, heard } = await say(turn, place, deadline);
    const isStuck = outcome.reason === "stalled" && process.turns() > 1;
    if (place.waited && !heard && (isStuck || outcome.reason === "agent_exit")) {
      // It had died, or was about to, when it was given the turn; or something has stopped it.
      await process.end();
      return run(turn, deadline);
    }
    if (isForgotten(outcome, place)) {
      // There is a transcript in which the CLI finds nothing: the session is begun again with all that was said.
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

/** The same events without secrets, also those that come in pieces. */
const masked = (redact: Redactor, tell: EngineTurn["onEvents"]): EngineTurn["onEvents"] => {
  let ready: AgentEvent[] = [];
  const mask = maskEvents(redact, (event) => void ready.push(event));
  return (events) => {
    ready = [];
    events.forEach(mask);
    if (ready.length > 0) tell(ready);
  };
};

/** A turn that was stopped before it was said leaves a session that knows of nothing. */
const wasTold = ({ resumes, process }: WarmProcess): boolean => resumes || process.turns() > 0;

/** Whether a kept process is what this turn wants. */
const isGoodFor = (seat: WarmProcess, turn: EngineTurn, wanted: ProcessOptions): boolean =>
  seat.variant === variantOf(wanted) &&
  seat.appended === turn.appendSystemPrompt &&
  // An effort once set cannot be taken back.
  (seat.effort === null || turn.effort !== null);

const isForgotten = ({ ok, error, numTurns }: TurnOutcome, { knows }: Place): boolean =>
  knows && !ok && (numTurns ?? 0) === 0 && /no conversation found/i.test(error ?? "");

/** Stands for an answer of which the caller may have any part. */
export const unknownAnswer = "*";

const maxAnswers = 10_000;
