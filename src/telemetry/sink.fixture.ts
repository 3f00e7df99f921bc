import type { EndedRun, TelemetryBatch } from "./sink.ts";

/** A job that succeeded on 2 March 2026. */
export const sampleRun = (changes: Partial<EndedRun> = {}): EndedRun => ({
  id: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
  kind: "job",
  ended_at: "2026-03-02T09:17:31.000Z",
  status: "succeeded",
  failure_reason: null,
  profile: "code",
  repo_url: "https://github.com/acme/app",
  model: "sonnet",
  principal: "open",
  cost_usd: 0.25,
  imputed: false,
  estimated: false,
  input_tokens: 100,
  output_tokens: 20,
  cache_creation_tokens: 3,
  cache_read_tokens: 4000,
  turns: 6,
  duration_ms: 150_000,
  ...changes,
});

/** One record of each kind. */
export const sampleBatch = (at = "2026-03-02T09:15:00.123Z"): TelemetryBatch => {
  const origin = { job_id: "job-1", session_id: "session-1" };
  const attributes = { "user.id": "x", list: [1, { a: true }] };
  return {
    metrics: [{ ...origin, at, name: "cost.usage", unit: "USD", value: 0.5, attributes }],
    events: [
      {
        ...origin,
        at,
        name: "api_request",
        severity: "INFO",
        body: "asked",
        trace_id: "t1",
        span_id: null,
        attributes,
      },
    ],
    spans: [
      {
        ...origin,
        trace_id: "t1",
        span_id: "s1",
        parent_span_id: null,
        name: "turn",
        started_at: at,
        ended_at: at,
        status: "ok",
        attributes,
      },
    ],
  };
};
