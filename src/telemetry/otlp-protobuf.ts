import protobuf from "protobufjs/minimal.js";
import { ServiceError } from "../contract/errors.ts";
import { layers, type Signal } from "./otlp.ts";

type Scalar = "string" | "bytes" | "bool" | "int32" | "int64" | "fixed64" | "sfixed64" | "double";

/** The fields of a message by number; those that are not listed are skipped. In brackets: repeated. */
type Message = { [field: number]: [name: string, kind: Scalar | Message | [Message]] };

const anyValue: Message = {
  1: ["stringValue", "string"],
  2: ["boolValue", "bool"],
  3: ["intValue", "int64"],
  4: ["doubleValue", "double"],
  7: ["bytesValue", "bytes"],
};
const attributes: [Message] = [{ 1: ["key", "string"], 2: ["value", anyValue] }];
anyValue[5] = ["arrayValue", { 1: ["values", [anyValue]] }];
anyValue[6] = ["kvlistValue", { 1: ["values", attributes] }];

const numberPoint: Message = {
  3: ["timeUnixNano", "fixed64"],
  4: ["asDouble", "double"],
  6: ["asInt", "sfixed64"],
  7: ["attributes", attributes],
};

/** Histograms and summaries differ only in the field that has the attributes. */
const distributionPoint = (attributesField: number): Message => ({
  3: ["timeUnixNano", "fixed64"],
  4: ["count", "fixed64"],
  5: ["sum", "double"],
  [attributesField]: ["attributes", attributes],
});

const data = (point: Message): Message => ({
  1: ["dataPoints", [point]],
  2: ["aggregationTemporality", "int32"],
});

const metric: Message = {
  1: ["name", "string"],
  3: ["unit", "string"],
  5: ["gauge", data(numberPoint)],
  7: ["sum", data(numberPoint)],
  9: ["histogram", data(distributionPoint(9))],
  10: ["exponentialHistogram", data(distributionPoint(1))],
  11: ["summary", data(distributionPoint(7))],
};

const logRecord: Message = {
  1: ["timeUnixNano", "fixed64"],
  2: ["severityNumber", "int32"],
  3: ["severityText", "string"],
  5: ["body", anyValue],
  6: ["attributes", attributes],
  9: ["traceId", "bytes"],
  10: ["spanId", "bytes"],
  11: ["observedTimeUnixNano", "fixed64"],
  12: ["eventName", "string"],
};

const span: Message = {
  1: ["traceId", "bytes"],
  2: ["spanId", "bytes"],
  4: ["parentSpanId", "bytes"],
  5: ["name", "string"],
  7: ["startTimeUnixNano", "fixed64"],
  8: ["endTimeUnixNano", "fixed64"],
  9: ["attributes", attributes],
  15: ["status", { 3: ["code", "int32"] }],
};

const requestOf = (signal: Signal, record: Message): Message => {
  const [resources, scopes, records] = layers[signal];
  const scope: Message = { 2: [records, [record]] };
  return { 1: [resources, [{ 1: ["resource", { 1: ["attributes", attributes] }], 2: [scopes, [scope]] }]] };
};

const requests: Record<Signal, Message> = {
  metrics: requestOf("metrics", metric),
  logs: requestOf("logs", logRecord),
  traces: requestOf("traces", span),
};

const maxDepth = 100;

/**
 * An ExportServiceRequest in the shape of OTLP/JSON, but bytes are bytes, and 64-bit integers bigints.
 * @param maxFields how many fields it may have in all
 * @throws ServiceError when it is torn, nested too deeply or too large
 */
export const decodeProtobuf = (signal: Signal, bytes: Uint8Array, maxFields: number): unknown => {
  const reader = protobuf.Reader.create(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  let fieldsLeft = maxFields;

  const read = (fields: Message, end: number, depth: number): Record<string, unknown> => {
    if (depth > maxDepth) throw invalid(`it is nested more than ${maxDepth} levels deep`);
    const message: Record<string, unknown> = {};
    while (reader.pos < end) {
      const tag = reader.tag();
      fieldsLeft -= 1;
      if (fieldsLeft < 0) throw tooManyFields(maxFields);
      const [name = "", kind] = fields[tag >>> 3] ?? [];
      const wireType = typeof kind === "string" ? wireTypes[kind] : lengthDelimited;
      if (kind === undefined || (tag & 7) !== wireType) reader.skipType(tag & 7, 0, tag >>> 3);
      else if (typeof kind === "string") message[name] = plain(reader[kind]());
      else {
        const inner = read(Array.isArray(kind) ? kind[0] : kind, reader.size() + reader.pos, depth + 1);
        if (Array.isArray(kind)) ((message[name] ??= []) as unknown[]).push(inner);
        else message[name] = inner;
      }
    }
    if (reader.pos !== end) throw invalid("a field is longer than its message");
    return message;
  };

  try {
    return read(requests[signal], bytes.byteLength, 0);
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw invalid((cause as Error).message, cause);
  }
};

const lengthDelimited = 2;

const wireTypes: Record<Scalar, number> = {
  bool: 0,
  int32: 0,
  int64: 0,
  fixed64: 1,
  sfixed64: 1,
  double: 1,
  string: lengthDelimited,
  bytes: lengthDelimited,
};

/** The library has 64-bit integers as objects of two halves. */
const plain = (value: unknown): unknown => {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  const { high, low, unsigned } = value as { high: number; low: number; unsigned: boolean };
  return (BigInt(unsigned ? high >>> 0 : high) << 32n) | BigInt(low >>> 0);
};

const invalid = (why: string, cause?: unknown): ServiceError =>
  new ServiceError("invalid_request", `The body is not a protobuf message of OTLP: ${why}`, { cause });

const tooManyFields = (maxFields: number): ServiceError =>
  new ServiceError(
    "body_too_large",
    `The request has more than ${maxFields.toLocaleString("en")} fields; send smaller batches`,
  );

/** A `google.rpc.Status` with that message, which OTLP wants in the answer to a request that failed. */
export const encodeStatus = (message: string): Uint8Array<ArrayBuffer> =>
  new Uint8Array(
    protobuf.Writer.create()
      .uint32((2 << 3) | lengthDelimited)
      .string(message)
      .finish(),
  );
