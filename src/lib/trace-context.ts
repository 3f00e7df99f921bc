import { createHash } from "node:crypto";

/** Names of the spans of a job, derived from its id: whoever writes a part of the trace needs to ask nobody. */

/** 32 hex digits. A UUID is one without its dashes. */
export const traceIdOf = (id: string): string => {
  const digits = id.replaceAll("-", "").toLowerCase();
  return /^[0-9a-f]{32}$/.test(digits) ? digits : hash(id).slice(0, 32);
};

/** 16 hex digits. */
export const spanIdOf = (id: string, ...names: (string | number)[]): string =>
  hash([id, ...names].join("\0")).slice(0, 16);

/** The span of the agent in one attempt of a job. */
export const agentSpanId = (jobId: string, attempt: number): string => spanIdOf(jobId, "agent", attempt);

/** W3C Trace Context: makes the agent's own spans children of its span in the job's trace. */
export const traceparentOf = (jobId: string, attempt: number): string =>
  `00-${traceIdOf(jobId)}-${agentSpanId(jobId, attempt)}-01`;

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
