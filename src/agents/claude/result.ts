import type { z } from "zod";
import type { AgentEvent } from "../../contract/event.ts";
import type { ResultLine } from "./wire.ts";

export type ResultEvent = Extract<AgentEvent, { type: "result" }>;

/** The CLI's account of the run. A refused request has the subtype `success` too: `is_error` tells. */
export const resultEvent = (line: z.output<typeof ResultLine>): ResultEvent => ({
  type: "result",
  ok: !(line.is_error ?? line.subtype !== "success") && !line.subtype.startsWith("error"),
  text: line.result ?? line.errors?.join("\n") ?? "",
  subtype: line.subtype,
  api_status: line.api_error_status ?? null,
  session_id: line.session_id ?? null,
  num_turns: line.num_turns ?? null,
  cost_usd: line.total_cost_usd ?? null,
  usage: line.usage ?? null,
  duration_ms: roundedOrNull(line.duration_ms ?? null),
});

/**
 * Whether a result replaces the one before it. The last one decides, but for one case: an error right after a success,
 * with nothing done in between, is the CLI's account of its own shutdown and takes nothing back
 * (docs/decisions/0002-which-result-decides.md).
 */
export const replaces = (before: ResultEvent | null, next: ResultEvent, workedInBetween: boolean): boolean =>
  before === null || !before.ok || next.ok || workedInBetween;

const roundedOrNull = (value: number | null): number | null => (value === null ? null : Math.round(value));
