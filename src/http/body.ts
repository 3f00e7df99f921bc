import { ServiceError } from "../contract/errors.ts";
import { checkJsonSize } from "./json-size.ts";

export type BodyLimits = { bytes: number; values: number };

export const bodyLimits: BodyLimits = { bytes: 1_048_576, values: 10_000 };

/** The request's body as a JSON object. Everything else is refused with a sentence that says what to send. */
export const readJsonObject = async (request: Request): Promise<Record<string, unknown>> =>
  (await readJsonObjectBytes(request, bodyLimits)).object;

/** Likewise, within `limits`, with the bytes that it was sent as. */
export const readJsonObjectBytes = async (
  request: Request,
  limits: BodyLimits,
): Promise<{ object: Record<string, unknown>; bytes: Uint8Array }> => {
  const { value, bytes } = await read(request, limits);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`The body must be a JSON object, not ${kindOf(value)}`);
  }
  return { object: { ...value }, bytes };
};

/** The request's body as JSON of any kind. */
export const readJson = async (request: Request): Promise<unknown> => (await read(request, bodyLimits)).value;

const read = async (request: Request, limits: BodyLimits): Promise<{ value: unknown; bytes: Uint8Array }> => {
  checkContentType(request.headers);
  const bytes = await readBytes(request, limits.bytes);
  if (bytes.byteLength === 0) throw invalid("The body is empty; send a JSON object");
  checkJsonSize(bytes, limits.values);
  return { value: parse(decode(bytes)), bytes };
};

/** `application/json` or a type built on it (`+json`), in UTF-8, not compressed. */
const checkContentType = (headers: Headers): void => {
  const encoding = headers.get("content-encoding");
  if (encoding !== null && encoding.toLowerCase() !== "identity") {
    throw new ServiceError(
      "unsupported_content_type",
      `Content-Encoding ${shown(encoding)} is not supported; send the body as it is`,
    );
  }
  const contentType = headers.get("content-type");
  if (contentType === null) {
    throw new ServiceError(
      "unsupported_content_type",
      "Send a JSON object with Content-Type: application/json",
    );
  }
  const [type = "", ...parameters] = contentType
    .toLowerCase()
    .split(";")
    .map((part) => part.trim());
  if (!/^application\/([\w.-]+\+)?json$/.test(type)) {
    throw new ServiceError(
      "unsupported_content_type",
      `Content-Type ${shown(contentType)} is not supported; send application/json`,
    );
  }
  const charset = parameters.find((parameter) => parameter.startsWith("charset="))?.slice("charset=".length);
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset)) {
    throw new ServiceError(
      "unsupported_content_type",
      `Charset ${shown(charset)} is not supported; JSON is sent in UTF-8`,
    );
  }
};

const readBytes = async (request: Request, maxBytes: number): Promise<Uint8Array> => {
  const length = request.headers.get("content-length");
  if (length !== null && Number(length) > maxBytes) throw tooLarge(maxBytes);
  try {
    // With a length the HTTP parser reads no more than that; without one the bytes are counted as they come.
    return length === null
      ? await readCounted(request, maxBytes)
      : new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw new ServiceError("invalid_request", "The body ended before it was complete", { cause });
  }
};

const readCounted = async ({ body }: Request, maxBytes: number): Promise<Uint8Array> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge(maxBytes);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

const decode = (bytes: Uint8Array): string => {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new ServiceError("invalid_request", "The body is not valid UTF-8", { cause });
  }
};

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new ServiceError("invalid_request", `The body is not valid JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
};

const invalid = (message: string): ServiceError => new ServiceError("invalid_request", message);

const tooLarge = (maxBytes: number): ServiceError =>
  new ServiceError(
    "body_too_large",
    `The body has more than ${maxBytes.toLocaleString("en")} bytes; send less`,
  );

const kindOf = (value: unknown): string =>
  Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;

const shown = (value: string): string => JSON.stringify(value.slice(0, 100));
