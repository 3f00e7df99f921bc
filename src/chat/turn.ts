import type { TurnOutcome } from "../agents/agent.ts";
import type { DisconnectPolicy } from "../config/formats.ts";
import { ServiceError } from "../contract/errors.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Visibility } from "../contract/visibility.ts";
import { createAnswerDigest } from "./answer-digest.ts";
import { orAborted } from "../lib/wait.ts";
import type { ChatTurn } from "./chat.ts";
import { createChunks, doneEvent, errorEvent, type AnswerHead } from "./chunks.ts";
import { createCompletionObject } from "./completion-object.ts";
import type { Delta } from "./delta.ts";
import { contentOf } from "./fence.ts";
import { createLabeller } from "./label.ts";
import { publicError } from "./public-error.ts";
import { createReaders } from "./readers.ts";
import { createTurnLog } from "./turn-log.ts";
import { isLive, shows } from "./visibility.ts";

type Options = {
  head: AnswerHead;
  stream: boolean;
  includeUsage: boolean;
  visibility: Visibility;
  liveText: boolean;
  policy: DisconnectPolicy;
  conversation: ChatTurn["conversation"];
  /** Where the part of a stream goes that no reader has taken yet and that is too much for the memory. */
  spillDirectory: string;
};

export type RunningTurn = ChatTurn & {
  /** Aborted when the turn is to end, with a `ServiceError` as reason. */
  signal: AbortSignal;
  onEvents: (events: readonly AgentEvent[]) => void;
  /** The agent has ended the turn: tells what was held back, and returns the digest of the answer as it was told. */
  concluded: (outcome: Pick<TurnOutcome, "ok" | "text">) => string;
  /** The last thing told: the end, or why there is no answer. */
  end: (outcome: { ok: true; usage: TurnOutcome["usage"] } | { ok: false; error: ServiceError }) => void;
  stop: (reason: ServiceError) => void;
  /** Characters that it has told. */
  size: () => number;
  /** Nobody can join it any more: what it keeps goes when its readers have left. */
  dispose: () => void;
};

/** One turn as its callers see it: told once, read by whoever asked for it, by all from the first byte on. */
export const createTurn = (options: Options): RunningTurn => {
  const { head, stream, includeUsage, visibility } = options;
  const labeller = createLabeller({ live: isLive(visibility, options.liveText) });
  const digest = createAnswerDigest();
  const chunks = createChunks(head);
  const whole = createCompletionObject(head);
  const log = createTurnLog({ lost, directory: options.spillDirectory, memoryBytes: 64 * 1024 });
  const answer = Promise.withResolvers<string>();
  // Nobody may be listening: of a stream, or when the caller is gone.
  answer.promise.catch(() => undefined);
  const stopping = new AbortController();
  const readers = createReaders({
    policy: options.policy,
    // A client library that gives up waiting asks again within a second, and is to find this turn. Stopping it takes a
    // moment more, and must be over two seconds after the caller has left.
    leastGrace: stream ? 0 : 1.2,
    onAbandoned: () => stopping.abort(abandoned()),
  });
  let size = 0;
  let isUnneeded = false;
  const disposeIfDone = (): void => {
    if (isUnneeded && readers.count() === 0) void log.dispose();
  };
  const entering = (signal: AbortSignal): (() => void) => {
    const leave = readers.enter(signal);
    return () => {
      leave();
      disposeIfDone();
    };
  };
  if (stream) log.append(chunks.role());

  const tell = (deltas: readonly Delta[]): string => {
    let text = "";
    for (const delta of deltas) {
      if (!shows(visibility, delta)) continue;
      if (delta.kind !== "thinking") digest.push(contentOf(delta));
      const piece = stream ? chunks.delta(delta) : "";
      text += piece;
      size += stream ? piece.length : sizeOf(delta);
      if (stream) continue;
      // A stream is kept on disk, a whole answer in memory.
      if (size > mostWhole) throw new Error(`the answer has more than ${mostWhole} characters; stream it`);
      whole.take(delta);
    }
    return text;
  };
  const append = (text: string): void => {
    if (text !== "") log.append(text);
  };

  return {
    id: head.id,
    conversation: options.conversation,
    signal: stopping.signal,
    onEvents: (events) => append(events.map((event) => tell(labeller.take(event))).join("")),
    concluded: ({ ok, text }) => {
      append(tell(labeller.finish({ ok, resultText: text })));
      return digest.digest();
    },
    end: (outcome) => {
      readers.close();
      if (outcome.ok) {
        append(stream ? chunks.stop(outcome.usage, includeUsage) + doneEvent : "");
        answer.resolve(stream ? "" : whole.finish(outcome.usage));
      } else {
        const error = shows(visibility, { kind: "final" }) ? outcome.error : withoutQuotes(outcome.error);
        append(stream ? errorEvent(publicError(error)) + doneEvent : "");
        answer.reject(error);
      }
      log.end();
    },
    stop: (reason) => stopping.abort(reason),
    size: () => size,
    dispose: () => {
      isUnneeded = true;
      disposeIfDone();
    },
    stream: (signal) => log.read(signal, entering(signal)),
    whole: async (signal) => {
      const leave = entering(signal);
      try {
        return await orAborted(answer.promise, signal);
      } catch (error) {
        throw error === signal.reason ? abandoned() : error;
      } finally {
        leave();
      }
    },
  };
};

const lost =
  errorEvent(
    publicError(new ServiceError("internal", "What was said in this turn is not kept any more: ask again.")),
  ) + doneEvent;

const mostWhole = 64 * 1024 * 1024;

const sizeOf = (delta: Delta): number =>
  delta.kind === "thinking" ? delta.text.length : contentOf(delta).length;

/** The first line says what went wrong; what follows quotes the agent, whose words are hidden. */
const withoutQuotes = ({ code, message, retryAfter, cause }: ServiceError): ServiceError =>
  new ServiceError(code, message.split("\n", 1)[0] ?? message, {
    cause,
    ...(retryAfter !== undefined && { retryAfter }),
  });

const abandoned = (): ServiceError =>
  new ServiceError("turn_cancelled", "The turn was stopped: its caller left");
