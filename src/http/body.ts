import { isUtf8 } from "node:buffer";
import { parseBody } from "hono/utils/body";
import { ServiceError } from "../contract/errors.ts";
import { fileLimits } from "../contract/run-options.ts";
import { readBounded } from "../lib/read-bounded.ts";

export type BodyLimits = { bytes: number; values: number };

export const bodyLimits: BodyLimits = { bytes: 1_048_576, values: 10_000 };

export const readJson = async (request: Request, limits = bodyLimits): Promise<unknown> => {
  checkContentType(request.headers);
  return parseJson(await readBytes(request, limits.bytes), limits.values);
};

/** @throws ServiceError that says what to send, when the body is no JSON object */
export const readJsonObject = async (request: Request): Promise<Record<string, unknown>> =>
  (await readJsonObjectBytes(request, bodyLimits)).object;

/** As `readJsonObject`, with limits of its own and the raw bytes. */
export const readJsonObjectBytes = async (
  request: Request,
  limits: BodyLimits,
): Promise<{ object: Record<string, unknown>; bytes: Uint8Array }> => {
  checkContentType(request.headers);
  const bytes = await readBytes(request, limits.bytes);
  return { object: objectOf(parseJson(bytes, limits.values) ?? {}, "The body"), bytes };
};

const objectOf = (value: unknown, what: string): Record<string, unknown> => {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(`${what} must be a JSON object, not ${kindOf(value)}`);
  return { ...value };
};

/** Bytes and parts of a multipart body: the files, and the JSON. `header`: bytes before a part's empty line. */
const multipartLimits = { bytes: 26 * 1024 * 1024, parts: fileLimits.files + 1, header: 16 * 1024 };

export const isMultipart = ({ headers }: Request): boolean =>
  /^multipart\/form-data\b/i.test(headers.get("content-type") ?? "");

/** The JSON of the part `job`, with the parts `attach` as its `options.files`. @throws ServiceError */
export const readAttached = async (request: Request): Promise<Record<string, unknown>> => {
  const { job, attach = [], ...others } = await readParts(request);
  const unknown = Object.keys(others);
  if (unknown.length > 0)
    throw invalid(`The part ${shown(unknown[0] ?? "")} is not known: there are job and attach`);
  if (job === undefined || Array.isArray(job))
    throw invalid("The body must have one part named job, with the JSON object of the submission");
  const bytes = typeof job === "string" ? Buffer.from(job) : new Uint8Array(await job.arrayBuffer());
  if (bytes.byteLength > bodyLimits.bytes) throw tooLarge(bodyLimits.bytes);
  const object = objectOf(parseJson(bytes, bodyLimits.values), "The part job");
  const options = objectOf(object["options"] ?? {}, "options");
  if (options["files"] !== undefined)
    throw invalid("options.files: goes with parts named attach, or in JSON");
  const files = await Promise.all([attach].flat().map(fileOf));
  return { ...object, options: { ...options, ...(files.length > 0 && { files }) } };
};

const readParts = async (request: Request) => {
  const bytes = await readBytes(request, multipartLimits.bytes);
  const type = request.headers.get("content-type") ?? "";
  const [, boundary = ""] = /boundary="?([\w'()+,./:=?-]{1,70})/i.exec(type) ?? [];
  if (boundary === "") throw invalid("Content-Type: multipart/form-data needs a boundary");
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
  requireParts(body, `--${boundary}`);
  const copy = new Request(request.url, {
    method: "POST",
    // With several boundaries, the parts are parsed by the one by which they were counted.
    headers: { "content-type": `multipart/form-data; boundary="${boundary}"` },
    body: new Uint8Array(bytes),
  });
  return parseBody(copy, { all: true }).catch((cause: unknown) => {
    throw invalid("The body is not valid multipart/form-data: each part needs a name, and the end", cause);
  });
};

/** Asked before a body is parsed, which takes long with many parts, or a long header of one. @throws ServiceError */
const requireParts = (body: string, delimiter: string): void => {
  const { parts, header } = multipartLimits;
  // Before the first part and behind the last one there are pieces, too.
  const pieces = body.split(delimiter, parts + 3);
  if (pieces.length > parts + 2)
    throw invalid(`The body has more than ${parts} parts: a job and ${fileLimits.files} files`);
  for (const piece of pieces.slice(1))
    // With the line break before it, which is half of the empty line of a part without a header.
    if (!piece.startsWith("--") && !piece.slice(0, 2 + header + 4).includes("\r\n\r\n"))
      throw invalid(
        `A part of the body has a header of more than ${header} bytes, or none; an empty line ends it`,
      );
};

const fileOf = async (part: string | File) => {
  if (typeof part === "string" || part.name === "")
    throw invalid("attach: each part needs a filename in its Content-Disposition");
  const bytes = Buffer.from(await part.arrayBuffer());
  const encoding = isUtf8(bytes) ? "utf-8" : "base64";
  return { name: part.name, content: bytes.toString(encoding), encoding };
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** @throws ServiceError invalid_request */
export const parseJson = (bytes: Uint8Array, maxValues: number): unknown => {
  if (bytes.byteLength === 0) throw invalid("The body is empty; send a JSON object");
  checkJsonSize(bytes, maxValues);
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch (cause) {
    throw invalid("The body is not valid UTF-8", cause);
  }
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw invalid(`The body is not valid JSON: ${(cause as Error).message}`, cause);
  }
};

/** `application/json` or a type built on it (`+json`), in UTF-8, not compressed. */
const checkContentType = (headers: Headers): void => {
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw unsupported(`Content-Encoding ${shown(encoding)} is not supported; send the body as it is`);
  }
  const contentType = headers.get("content-type");
  if (contentType === null) {
    throw unsupported("Send a JSON object with Content-Type: application/json");
  }
  const [type = "", ...parameters] = contentType
    .toLowerCase()
    .split(";")
    .map((part) => part.trim());
  if (!/^application\/([\w.-]+\+)?json$/.test(type)) {
    throw unsupported(`Content-Type ${shown(contentType)} is not supported; send application/json`);
  }
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset)) {
    throw unsupported(`Charset ${shown(charset)} is not supported; JSON is sent in UTF-8`);
  }
};

export const readBytes = async (request: Request, maxBytes: number): Promise<Uint8Array> => {
  const length = request.headers.get("content-length");
  if (length !== null && Number(length) > maxBytes) throw tooLarge(maxBytes);
  try {
    // The HTTP parser reads no more than Content-Length; without one the bytes are counted here.
    return length === null
      ? await readBounded(request.body, maxBytes, () => tooLarge(maxBytes))
      : new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw invalid("The body ended before it was complete", cause);
  }
};

const maxDepth = 100;

/**
 * Refuses JSON that is nested deeply or has very many values before it is parsed: parsing and checking 20 MiB of them
 * would block all other requests for seconds. It does not check the syntax; a key and its value count as two.
 */
const checkJsonSize = (json: Uint8Array, maxValues: number): void => {
  let depth = 0;
  let values = 0;
  let isInString = false;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === 0x22) isInString = !isInString;
    else if (isInString) at += byte === 0x5c ? 1 : 0;
    else if (byte === 0x2c || byte === 0x3a) values += 1;
    else if (byte === 0x5d || byte === 0x7d) depth -= 1;
    else if (byte === 0x5b || byte === 0x7b) {
      values += 1;
      depth += 1;
    }
    if (depth > maxDepth) throw invalid(`The JSON is nested more than ${maxDepth} levels deep; send less`);
    if (values > maxValues)
      throw invalid(`The JSON has more than ${maxValues.toLocaleString("en")} values; send less`);
  }
};

const invalid = (message: string, cause?: unknown): ServiceError =>
  new ServiceError("invalid_request", message, { cause });

export const unsupported = (message: string): ServiceError =>
  new ServiceError("unsupported_content_type", message);

const tooLarge = (maxBytes: number): ServiceError =>
  new ServiceError(
    "body_too_large",
    `The body has more than ${maxBytes.toLocaleString("en")} bytes; send less`,
  );

const kindOf = (value: unknown): string =>
  Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;

const shown = (value: string): string => JSON.stringify(value.slice(0, 100));
