import type { DisconnectPolicy } from "../config/formats.ts";
import { ServiceError } from "../contract/errors.ts";
import type { EngineEvent } from "./engine.ts";
import type { Visibility } from "../contract/visibility.ts";
import { createAnswerDigest } from "./answer-digest.ts";
import { orAborted } from "../lib/wait.ts";
import { toJson } from "../lib/well-formed.ts";
import type { ChatTurn, ChatRequest } from "./chat.ts";
import { createChunks, doneEvent, errorEvent, type AnswerHead, publicUsage } from "./chunks.ts";
import { type Delta, contentOf, isLive, shows } from "./delta.ts";
import { createLabeller } from "./label.ts";
import { publicError } from "./failure.ts";
import { createTurnLog } from "./turn-log.ts";
import type { Usage } from "../contract/job.ts";

type Options = {
  head: AnswerHead;
  stream: boolean;
  includeUsage: boolean;
  visibility: Visibility;
  /** Text before the answer, whatever is visible; empty: none. */
  status: string;
  liveText: boolean;
  policy: DisconnectPolicy;
  conversation: ChatTurn["conversation"];
};

/** One turn as its callers see it: written once, read by each caller from the first byte on. */
export const createTurn = (options: Options) => {
  const { head, stream, includeUsage, visibility } = options;
  const labeller = createLabeller({ live: isLive(visibility, options.liveText) });
  const digest = createAnswerDigest();
  const chunks = createChunks(head);
  const whole = createCompletionObject(head);
  const log = createTurnLog();
  const answer = Promise.withResolvers<string>();
  // There may be no listener: for a stream, or when the caller has left.
  answer.promise.catch(() => undefined);
  const stopping = new AbortController();
  const readers = createReaders({
    policy: options.policy,
    // A client library that times out retries within a second, and must find this turn. Stopping the turn takes a
    // moment more, and must be over two seconds after the caller has left.
    minGrace: stream ? 0 : 1.2,
    onAbandoned: () => stopping.abort(abandoned()),
  });
  let size = 0;
  let isBroken = false;
  const send = (delta: Delta): void => {
    if (delta.kind !== "thinking") digest.push(contentOf(delta));
    const piece = stream ? chunks.delta(delta) : delta.kind === "thinking" ? delta.text : contentOf(delta);
    size += piece.length;
    // It is in memory.
    if (size > maxChars) throw new Error(`the answer has more than ${maxChars} characters; ask for less`);
    if (stream) log.append(piece);
    else whole.take(delta);
  };
  const sendVisible = (deltas: readonly Delta[]): void => {
    for (const delta of deltas) if (shows(visibility, delta)) send(delta);
  };
  if (stream) log.append(chunks.role());
  if (options.status !== "") send({ kind: "text", text: options.status });

  return {
    id: head.id,
    conversation: options.conversation,
    /** Aborted when the turn must end, with a `ServiceError` as reason. */
    signal: stopping.signal,
    /** Sends what is visible of an event. An answer that becomes too large is stopped. */
    take: (event: EngineEvent): void => {
      if (isBroken || event.type === "session" || event.type === "ready" || event.type === "spent") return;
      try {
        if (event.type !== "ended") return sendVisible(labeller.take(event));
        const { ok, text } = event.outcome;
        sendVisible(labeller.finish({ ok, resultText: text }));
      } catch (error) {
        isBroken = true;
        stopping.abort(unsendable(error));
      }
    },
    answerDigest: digest.digest,
    /** The last step: the end, or why there is no answer. */
    end: (outcome: { ok: true; usage: Usage | null } | { ok: false; error: ServiceError }): void => {
      readers.close();
      if (outcome.ok) {
        if (stream) log.append(chunks.stop(outcome.usage, includeUsage) + doneEvent);
        answer.resolve(stream ? "" : whole.finish(outcome.usage));
      } else {
        const error = shows(visibility, { kind: "final" }) ? outcome.error : withoutQuotes(outcome.error);
        if (stream) log.append(errorEvent(publicError(error)) + doneEvent);
        answer.reject(error);
      }
      log.end();
    },
    stop: (reason: ServiceError): void => stopping.abort(reason),
    /** Characters sent so far. */
    size: () => size,
    stream: (signal: AbortSignal) => log.read(signal, readers.enter(signal)),
    whole: async (signal: AbortSignal): Promise<string> => {
      const leave = readers.enter(signal);
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

export type RunningTurn = ReturnType<typeof createTurn>;

/** Limit of an answer, with what a stream puts around each piece. */
const maxChars = 64 * 1024 * 1024;

const unsendable = (error: unknown): ServiceError =>
  new ServiceError(
    "agent_failed",
    `What the agent said could not be passed on, so it was stopped: ${error instanceof Error ? error.message : String(error)}`,
    { cause: error },
  );

/** The first line says what failed; the rest quotes the agent, whose words are hidden. */
const withoutQuotes = ({ code, message, retryAfter, cause }: ServiceError): ServiceError =>
  new ServiceError(code, message.split("\n", 1)[0] ?? message, {
    cause,
    ...(retryAfter !== undefined && { retryAfter }),
  });

const abandoned = (): ServiceError =>
  new ServiceError("turn_cancelled", "The turn was stopped: its caller left");

type ReaderOptions = {
  policy: DisconnectPolicy;
  /** Seconds for which the turn continues at least after its last reader has left, so that a retry can join it. */
  minGrace: number;
  /** The turn has no reader and will get none. */
  onAbandoned: () => void;
};

/** Counts the readers of a turn. Its caller counts as one until the first begins to read. */
export const createReaders = ({ policy, minGrace: leastGrace, onAbandoned }: ReaderOptions) => {
  let count = 0;
  let over = false;
  let timer: NodeJS.Timeout | undefined;

  const left = (): void => {
    count -= 1;
    if (count > 0 || over || policy.kind === "detach") return;
    const seconds = Math.max(leastGrace, policy.graceSeconds);
    if (seconds === 0) return onAbandoned();
    timer = setTimeout(onAbandoned, seconds * 1000);
  };

  return {
    /** Returns a function to call when the reader leaves; the signal's abort does the same. Idempotent. */
    enter: (signal: AbortSignal): (() => void) => {
      clearTimeout(timer);
      count += 1;
      let here = true;
      const leave = (): void => {
        if (!here) return;
        here = false;
        signal.removeEventListener("abort", leave);
        left();
      };
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
      return leave;
    },
    /** The turn has ended: readers may leave without consequence. */
    close: (): void => {
      over = true;
      clearTimeout(timer);
    },
  };
};

/** An answer that is complete at once, without an agent. */
export const instantTurn = (
  head: AnswerHead,
  { includeUsage }: Pick<ChatRequest, "includeUsage">,
  { kind, text }: { kind: "stream_config" | "final"; text: string },
): ChatTurn => ({
  id: head.id,
  conversation: null,
  async *stream() {
    const chunks = createChunks(head);
    const content = kind === "final" ? chunks.delta({ kind, text }) : chunks.streamConfig(text);
    yield new TextEncoder().encode(chunks.role() + content + chunks.stop(null, includeUsage) + doneEvent);
  },
  whole: async () => {
    const object = createCompletionObject(head);
    object.take({ kind: "final", text });
    return object.finish(null);
  },
});

/** Collects the answer to a request without `stream`: its content is that of the stream, joined. */
export const createCompletionObject = ({ id, created, model }: AnswerHead) => {
  const content: string[] = [];
  const reasoning: string[] = [];
  return {
    /** A visible delta; pass no hidden one. */
    take: (delta: Delta): void => {
      if (delta.kind === "thinking") reasoning.push(delta.text);
      else content.push(contentOf(delta));
    },
    /** The `chat.completion` object as JSON text. */
    finish: (usage: Usage | null): string => {
      const message = {
        role: "assistant",
        content: content.join(""),
        refusal: null,
        ...(reasoning.length > 0 && { reasoning_content: reasoning.join("") }),
      };
      return toJson({
        id,
        object: "chat.completion",
        created,
        model,
        choices: [{ index: 0, message, logprobs: null, finish_reason: "stop" }],
        usage: publicUsage(usage),
      });
    },
  };
};
