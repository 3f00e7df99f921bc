import type { Readable } from "node:stream";
import type { AgentEvent } from "../../contract/event.ts";
import { createLineSplitter } from "../../lib/lines.ts";
import type { Redact } from "../../lib/redact.ts";
import { createTailBuffer, type TailBuffer } from "../../lib/tail-buffer.ts";
import { createDecoder, type DecoderFacts } from "./decode.ts";
import { replaces, type ResultEvent } from "./result.ts";

/** What is known of a run from its two output streams. */
export type Observed = {
  facts: DecoderFacts;
  /** The result that decides. */
  result: ResultEvent | null;
  sessionId: string | null;
  model: string | null;
  /** Instant at which the rejected limit resets, empty when it was not told; null: no limit was met. */
  limitResetsAt: string | null;
  events: number;
  stdoutBytes: number;
  /** The output ends in the middle of a line. */
  cutLine: boolean;
  /** End of what the agent said, and of lines that are not of its protocol. */
  said: TailBuffer;
  stderr: TailBuffer;
};

type ReadOutput = {
  stdout: Readable;
  stderr: Readable;
  redact: Redact;
  emit: (event: AgentEvent, bytes: number) => void;
  /** A line of the protocol came. */
  onLine: () => void;
  onResult: () => void;
};

export const outputLimit = 51_200;
export const errorLimit = 10_240;

/** Reads both streams to their end, whatever becomes of the events: an agent whose pipe is full loses output. */
export const readOutput = ({ stdout, stderr, redact, emit, onLine, onResult }: ReadOutput): Observed => {
  const decoder = createDecoder();
  const observed: Observed = {
    facts: decoder.facts,
    result: null,
    sessionId: null,
    model: null,
    limitResetsAt: null,
    events: 0,
    stdoutBytes: 0,
    cutLine: false,
    said: createTailBuffer(outputLimit),
    stderr: createTailBuffer(4 * errorLimit),
  };

  const take = (event: AgentEvent, bytes: number): void => {
    observed.events += 1;
    note(observed, event);
    emit(event, bytes);
  };

  const takeLine = (raw: string): void => {
    const line = redact(raw);
    const worked = decoder.facts.workedSinceResult;
    const { events, garbage } = decoder.decode(line);
    if (garbage) observed.said.push(`${line}\n`);
    else onLine();
    for (const event of events) {
      const bytes = Math.ceil(line.length / events.length);
      if (event.type !== "result") {
        take(event, bytes);
      } else if (replaces(observed.result, event, worked)) {
        observed.result = event;
        take(event, bytes);
        onResult();
      } else {
        take({ type: "warning", message: shutdownError(event) }, bytes);
      }
    }
  };

  const lines = createLineSplitter({
    onLine: takeLine,
    onOversized: (bytes) => {
      onLine();
      take(
        { type: "warning", message: `The agent wrote a line of ${bytes} bytes, which was left out.` },
        100,
      );
    },
  });
  stdout.on("data", (chunk: Buffer) => {
    observed.stdoutBytes += chunk.length;
    observed.cutLine = chunk.at(-1) !== 10;
    lines.push(chunk);
  });
  // Not "end": it does not come when the pipe is given up because somebody keeps it open.
  stdout.once("close", lines.end);
  stderr.on("data", (chunk: Buffer) => observed.stderr.push(chunk));
  return observed;
};

const note = (observed: Observed, event: AgentEvent): void => {
  if (event.type === "text") observed.said.push(event.text);
  if (event.type === "block_end") observed.said.push("\n");
  if (event.type === "rate_limit" && event.status === "rejected")
    observed.limitResetsAt = event.resets_at ?? "";
  if (event.type === "started") {
    observed.sessionId = event.session_id;
    observed.model = event.model;
  }
};

const shutdownError = ({ subtype, text }: ResultEvent): string =>
  `After its result the agent reported an error of its shutdown, which does not change the result: ${text || subtype}`;
