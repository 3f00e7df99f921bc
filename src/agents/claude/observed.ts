import type { AgentEvent } from "../../contract/event.ts";
import { createTailBuffer, type TailBuffer } from "../../lib/tail-buffer.ts";
import type { DecoderFacts } from "./decode.ts";
import type { ResultEvent } from "./result.ts";

/** What is known of a turn from the process's two output streams. */
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

const outputLimit = 51_200;
export const errorLimit = 10_240;

export const createObserved = (facts: DecoderFacts): Observed => ({
  facts,
  result: null,
  sessionId: facts.sessionId,
  model: facts.model,
  limitResetsAt: null,
  events: 0,
  stdoutBytes: 0,
  cutLine: false,
  said: createTailBuffer(outputLimit),
  stderr: createTailBuffer(4 * errorLimit),
});

export const note = (observed: Observed, event: AgentEvent): void => {
  observed.events += 1;
  if (event.type === "text") observed.said.push(event.text);
  if (event.type === "block_end") observed.said.push("\n");
  if (event.type === "rate_limit" && event.status === "rejected")
    observed.limitResetsAt = event.resets_at ?? "";
};
