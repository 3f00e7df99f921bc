import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { z } from "zod";
import type { ZodOpenApiOperationObject } from "zod-openapi";
import { ServiceError } from "../contract/errors.ts";
import { batchOf, signals, type Signal } from "../telemetry/otlp.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import { createAuthentication } from "./access.ts";
import { parseJson, readBytes, unsupported } from "./body.ts";
import { failureOf, type Call, type Reply, type Route } from "./route.ts";

export type Receiver = {
  /** Lets the agents in, which have no API key. */
  token: string;
  /** Rejects while the batch cannot be stored; the exporter sends it again then. */
  store: TelemetrySink["append"];
};

const maxCompressed = 4_194_304;
const maxPlain = 33_554_432;
/** JSON's values. Decoding so many takes up to a third of a second, in which nothing else is answered. */
const maxValues = 500_000;
/** Also bounds the memory that agents can make the service use: a request counts from before its body is read. */
const maxAtOnce = 8;

const json = "application/json";

/** The receiver of OTLP/JSON over HTTP: https://opentelemetry.io/docs/specs/otlp/#otlphttp */
export const otlpRoutes = ({ token, apiKeys, store }: Receiver & { apiKeys: readonly string[] }): Route[] => {
  const authenticate = createAuthentication([token, ...apiKeys]);
  let atOnce = 0;

  const receive = async (signal: Signal, { request, note }: Call): Promise<void> => {
    if (request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() !== json)
      throw unsupported(`Send OTLP/JSON, Content-Type ${json} (OTEL_EXPORTER_OTLP_PROTOCOL=http/json)`);
    if (atOnce >= maxAtOnce) throw unavailable("capacity_full", "Too many requests at once");
    atOnce += 1;
    try {
      const message = parseJson(await plainBody(request), maxValues);
      const batch = batchOf(signal, message, new Date());
      await store(batch).catch((cause: unknown) => {
        throw unavailable("store_unavailable", "The telemetry could not be stored", cause);
      });
      note({ records: batch.metrics.length + batch.events.length + batch.spans.length });
    } finally {
      atOnce -= 1;
    }
  };

  return signals.map((signal) => ({
    method: "post",
    path: `/otlp/v1/${signal}`,
    // Also by a token that is valid nowhere else.
    authenticate,
    failures: { under: "/otlp/", reply: refusal },
    openapi: description(signal),
    handle: async (call) => {
      await receive(signal, call);
      return { status: 200, headers: { "content-type": json }, body: "{}" };
    },
  }));
};

const plainBody = async (request: Request): Promise<Uint8Array> => {
  const encoding = request.headers.get("content-encoding")?.toLowerCase() ?? "identity";
  if (encoding === "identity") return await readBytes(request, maxPlain);
  if (encoding !== "gzip") throw unsupported("Send the body as it is, or with Content-Encoding: gzip");
  const compressed = await readBytes(request, maxCompressed);
  try {
    return await promisify(gunzip)(compressed, { maxOutputLength: maxPlain });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE")
      throw new ServiceError(
        "body_too_large",
        `The body has more than ${maxPlain.toLocaleString("en")} bytes when it is unpacked; send smaller batches`,
      );
    throw new ServiceError("invalid_request", "The body is not valid gzip", { cause });
  }
};

/** A `google.rpc.Status`, as OTLP asks for. Exporters send again after a 503, and after no other status here. */
const refusal = (error: ServiceError): Reply => ({
  status: error.code === "unsupported_content_type" ? 415 : error.status,
  headers: { ...failureOf(error).headers, "content-type": json },
  body: JSON.stringify({ message: error.message }),
});

const unavailable = (
  code: "capacity_full" | "store_unavailable",
  what: string,
  cause?: unknown,
): ServiceError => new ServiceError(code, `${what}; send it again shortly`, { cause, retryAfter: 1 });

const Status = z.object({ message: z.string().describe("What is wrong and what to do") });

const bodies = (schema: z.ZodType) => ({ [json]: { schema } });

const failures: Record<string, string> = {
  "400": "It cannot be decoded",
  "401": "The key or token is missing or not valid",
  "403": "The request comes from another origin or for another host",
  "413": "Too many bytes or records",
  "415": "Not JSON, or compressed otherwise than with gzip",
  "503": "The store cannot be reached, or too many requests at once; send it again",
};

const description = (signal: Signal): ZodOpenApiOperationObject => ({
  operationId: `otlp_${signal}`,
  summary: `Take ${signal} of an OpenTelemetry exporter`,
  requestBody: { required: true, content: bodies(z.looseObject({})) },
  responses: {
    "200": { description: "Stored", content: bodies(z.object({})) },
    ...Object.fromEntries(
      Object.entries(failures).map(([status, what]) => [
        status,
        { description: what, content: bodies(Status) },
      ]),
    ),
  },
});
