import type { EndedRun, TelemetryBatch } from "./sink.ts";

/** A job that succeeded on 2 March 2026. */
export const sampleRun = (changes: Partial<EndedRun> = {}): EndedRun => ({
  id: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
  kind: "job",
  endedAt: "2026-03-02T09:17:31.000Z",
  status: "succeeded",
  failureReason: null,
  profile: "code",
  repoUrl: "https://github.com/acme/app",
  model: "sonnet",
  principal: "open",
  costUsd: 0.25,
  imputed: false,
  estimated: false,
  inputTokens: 100,
  outputTokens: 20,
  cacheCreationTokens: 3,
  cacheReadTokens: 4000,
  turns: 6,
  durationMs: 150_000,
  ...changes,
});

/** One record of each kind. */
export const sampleBatch = (at = "2026-03-02T09:15:00.123Z"): TelemetryBatch => {
  const origin = { jobId: "job-1", sessionId: "session-1" };
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
        traceId: "t1",
        spanId: null,
        attributes,
      },
    ],
    spans: [
      {
        ...origin,
        traceId: "t1",
        spanId: "s1",
        parentSpanId: null,
        name: "turn",
        startedAt: at,
        endedAt: at,
        status: "ok",
        attributes,
      },
    ],
  };
};
