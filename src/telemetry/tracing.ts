import { ROOT_CONTEXT, trace, type SpanContext } from "@opentelemetry/api";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import type { StartSpan } from "./trace.ts";

type TracingSettings = Pick<
  Settings,
  "tracingHost" | "tracingPublicKey" | "tracingSecretKey" | "tracingBasicAuth"
>;

/** Null: tracing is off. */
export const tracingBackend = (settings: TracingSettings) => {
  const { tracingHost, tracingPublicKey, tracingSecretKey, tracingBasicAuth } = settings;
  if (tracingHost === null) return null;
  const keys =
    tracingPublicKey === null || tracingSecretKey === null
      ? tracingBasicAuth
      : Buffer.from(`${tracingPublicKey}:${tracingSecretKey}`).toString("base64");
  const host = new URL(tracingHost);
  // A host alone is one of Langfuse; an address with a path is any OTLP endpoint.
  const url = host.pathname === "/" ? new URL(vendorPath, host) : host;
  return { url: url.href, authorization: keys === null ? null : `Basic ${keys}` };
};

const vendorPath = "/api/public/otel/v1/traces";

type Options = {
  backend: NonNullable<ReturnType<typeof tracingBackend>>;
  service: { name: string; version: string };
  redact: Redactor;
  dropped: (spans: number) => void;
  log: Pick<Log, "warn">;
};

/** The official SDK, which sends ended spans in the background, tries again for 5 s, and then drops them. */
export const createTracer = async ({ backend, service, redact, dropped, log }: Options) => {
  // Loaded on demand: most services have no backend.
  const [sdk, { OTLPTraceExporter }, { resourceFromAttributes }] = await Promise.all([
    import("@opentelemetry/sdk-trace-base"),
    import("@opentelemetry/exporter-trace-otlp-http"),
    import("@opentelemetry/resources"),
  ]);
  const { url, authorization } = backend;
  const headers: Record<string, string> = authorization === null ? {} : { authorization };
  const exporter = withoutEnvironment(
    () => new OTLPTraceExporter({ url, headers, timeoutMillis: timeoutMs }),
  );
  const warnings = createWarnOnce();
  let waiting = 0;
  const drop = (reason: string, spans: number): void => {
    dropped(spans);
    warnings.once("", () => log.warn(`traces are dropped: ${reason}`));
  };
  const batches = new sdk.BatchSpanProcessor(
    {
      export: (spans, done) => {
        const masked = spans.map(
          (span) =>
            Object.create(span, {
              name: { value: redact(span.name) },
              attributes: { value: redactDeep(span.attributes, redact) },
            }) as typeof span,
        );
        exporter.export(masked, (result) => {
          waiting -= spans.length;
          if (result.code === 0) warnings.clear("");
          else drop(`the tracing backend did not take them (${redact(String(result.error))})`, spans.length);
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
    },
    { maxQueueSize: maxWaiting, scheduledDelayMillis: 1000, exportTimeoutMillis: timeoutMs },
  );
  const random = new sdk.RandomIdGenerator();
  let ids: SpanContext | null = null;
  const provider = new sdk.BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": service.name, "service.version": service.version }),
    sampler: new sdk.AlwaysOnSampler(),
    idGenerator: {
      generateTraceId: () => ids?.traceId ?? random.generateTraceId(),
      generateSpanId: () => ids?.spanId ?? random.generateSpanId(),
    },
    spanProcessors: [
      {
        onStart: () => undefined,
        onEnd: (span) => {
          if (waiting >= maxWaiting) return drop(`more than ${maxWaiting} spans wait`, 1);
          waiting += 1;
          batches.onEnd(span);
        },
        forceFlush: () => batches.forceFlush(),
        shutdown: () => batches.shutdown(),
      },
    ],
  });
  const tracer = provider.getTracer(service.name);
  return {
    start: ((name, { at, parent, ids: given = null, attributes = {} }) => {
      const above = parent === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
      ids = given;
      try {
        return tracer.startSpan(name, { startTime: new Date(at), attributes }, above);
      } finally {
        ids = null;
      }
    }) satisfies StartSpan,
    /** Sends what waits. Resolves also when that cannot be done. */
    close: (): Promise<void> => provider.shutdown().catch(() => undefined),
  };
};

/** The exporter would add OTEL_EXPORTER_OTLP_HEADERS, which may hold a credential for another collector. */
const withoutEnvironment = <Value>(create: () => Value): Value => {
  const { env } = process;
  process.env = {};
  try {
    return create();
  } finally {
    process.env = env;
  }
};

/** Of one batch with all its tries, ms. What the SDK waits for cannot be stopped: it must not keep the process from ending. */
const timeoutMs = 5000;

const maxWaiting = 8192;
