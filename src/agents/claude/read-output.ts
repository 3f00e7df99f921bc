import type { Readable } from "node:stream";
import type { AgentEvent } from "../../contract/event.ts";
import { addUsage, type Usage } from "../../contract/job.ts";
import { createLineSplitter } from "../../lib/lines.ts";
import { redactDeep, type Redactor } from "../../lib/redact.ts";
import { createTailBuffer } from "../../lib/tail-buffer.ts";
import { createDecoder, type DecoderFacts, replaces, type ResultEvent } from "./decode.ts";
import { maskEvents } from "./mask-events.ts";

type ReadOutput = {
  stdout: Readable;
  stderr: Readable;
  /**
   * Masks what the decoder has read. Earlier, in lines, it would hide a secret in a whole block but not in its pieces,
   * and the block would count as another text.
   */
  redact: Redactor;
  emit: (event: AgentEvent) => void;
  /** Called for a line by which the CLI requests something. */
  onRequest: (line: unknown) => void;
  /** Called for a line of the protocol. */
  onLine: () => void;
  /** Called when all events of a piece of output have been passed on. */
  onChunk: (bytes: number) => void;
};

/** Reads both streams to their end, whatever the event handler does: an agent whose pipe is full loses output. */
export const readOutput = (options: ReadOutput) => {
  const { stdout, stderr, redact, emit, onRequest, onLine, onChunk } = options;
  const decoder = createDecoder();
  const { facts } = decoder;
  let observed = createObserved(facts);
  let firstTurn = true;

  const take = maskEvents(redact, (event) => {
    note(observed, event);
    emit(event);
  });

  const takeResult = (raw: ResultEvent, before: { worked: boolean; open: boolean }): void => {
    if (!firstTurn && !before.open) return;
    const event = redactDeep(raw, redact);
    if (replaces(observed.result, event, before.worked)) {
      observed.result = event;
      observed.usage = addUsage(observed.usage, event.usage);
      if (event.num_turns !== null) observed.numTurns = (observed.numTurns ?? 0) + event.num_turns;
      take(event);
    } else {
      take({ type: "warning", message: shutdownError(event) });
    }
  };

  const takeLine = (line: string): void => {
    const before = { worked: facts.workedSinceResult, open: facts.turnOpen };
    const { events, garbage, request } = decoder.decode(line);
    observed.sessionId = facts.sessionId;
    observed.model = facts.model;
    if (garbage) observed.said.push(`${redact(line)}\n`);
    else onLine();
    if (request !== undefined) onRequest(request);
    for (const event of events) {
      if (event.type === "result") takeResult(event, before);
      else take(event);
    }
  };

  const lines = createLineSplitter({
    onLine: takeLine,
    onOversized: (bytes) => {
      onLine();
      take({ type: "warning", message: `The agent wrote a line of ${bytes} bytes, which was left out.` });
    },
  });
  stdout.on("data", (chunk: Buffer) => {
    observed.stdoutBytes += chunk.length;
    observed.isLineCut = chunk.at(-1) !== 10;
    lines.push(chunk);
    onChunk(chunk.length);
  });
  // Not "end": it does not come when a pipe that another process holds open is given up.
  stdout.once("close", () => {
    lines.end();
    take(null);
    onChunk(0);
  });
  stderr.on("data", (chunk: Buffer) => observed.stderr.push(chunk));
  return {
    /** Output of the turn in flight, or of the last one. */
    observed: (): Observed => observed,
    /** Later output belongs to another turn. A late result of the one before is dropped. */
    nextTurn: (): void => {
      decoder.nextTurn();
      observed = createObserved(facts);
      firstTurn = false;
    },
  };
};

const shutdownError = ({ subtype, text }: ResultEvent): string =>
  `After its result the agent reported an error of its shutdown, which does not change the result: ${text || subtype}`;

/** Bytes that each tail holds. */
const tailBytes = { said: 51_200, stderr: 40_960 };

/** A turn as the process's two output streams show it. */
const createObserved = (facts: DecoderFacts) => ({
  facts,
  /** The decisive result. */
  result: null as ResultEvent | null,
  /** Sum of all results: each has the tokens since the one before. */
  usage: null as Usage | null,
  /** Sum of all results, too. */
  numTurns: null as number | null,
  /** Sum of the model's messages so far. */
  told: null as Usage | null,
  sessionId: facts.sessionId,
  model: facts.model,
  /** When the rejected limit resets, empty when unknown; null: no limit was met. */
  limitResetsAt: null as string | null,
  events: 0,
  stdoutBytes: 0,
  /** The output ends inside a line. */
  isLineCut: false,
  /** The tail of what the agent said, and of lines outside its protocol. */
  said: createTailBuffer(tailBytes.said),
  /** Tail of its last block of text. */
  lastWords: createTailBuffer(tailBytes.said),
  lastBlock: null as number | null,
  stderr: createTailBuffer(tailBytes.stderr),
});
export type Observed = ReturnType<typeof createObserved>;

const note = (observed: Observed, event: AgentEvent): void => {
  observed.events += 1;
  if (event.type === "text") noteText(observed, event);
  if (event.type === "block_end") observed.said.push("\n");
  if (event.type === "usage") observed.told = addUsage(observed.told, event.usage);
  if (event.type === "rate_limit" && event.status === "rejected")
    observed.limitResetsAt = event.resets_at ?? "";
};

const noteText = (observed: Observed, { block, text }: { block: number; text: string }): void => {
  observed.said.push(text);
  if (observed.lastBlock !== block) observed.lastWords.clear();
  observed.lastBlock = block;
  observed.lastWords.push(text);
};
