import { ServiceError } from "../contract/errors.ts";

export type BodyLimits = { bytes: number; values: number };

export const bodyLimits: BodyLimits = { bytes: 1_048_576, values: 10_000 };

/** @throws ServiceError that says what to send, when the body is no JSON object */
export const readJsonObject = async (request: Request): Promise<Record<string, unknown>> =>
  (await readJsonObjectBytes(request, bodyLimits)).object;

/** As `readJsonObject`, with limits of its own and the raw bytes. */
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

export const readJson = async (request: Request): Promise<unknown> => (await read(request, bodyLimits)).value;

const read = async (request: Request, limits: BodyLimits): Promise<{ value: unknown; bytes: Uint8Array }> => {
  checkContentType(request.headers);
  const bytes = await readBytes(request, limits.bytes);
  return { value: parseJson(bytes, limits.values), bytes };
};

/** @throws ServiceError invalid_request */
export const parseJson = (bytes: Uint8Array, maxValues: number, maxItems?: number): unknown => {
  if (bytes.byteLength === 0) throw invalid("The body is empty; send a JSON object");
  checkJsonSize(bytes, maxValues, maxItems);
  return parse(decode(bytes));
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
      ? await readCounted(request, maxBytes)
      : new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    if (cause instanceof ServiceError) throw cause;
    throw invalid("The body ended before it was complete", cause);
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

const maxDepth = 100;
/** Items of one array or object; a key and its value count as two. */
const defaultMaxItems = 10_000;

/**
 * Refuses JSON that is nested deeply or has very many values before it is parsed: parsing and checking take time for each
 * value and block all other requests. It does not check the syntax.
 * @throws ServiceError invalid_request
 */
export const checkJsonSize = (json: Uint8Array, maxValues: number, maxItems = defaultMaxItems): void => {
  /** Items of each open array and object, by depth. */
  const counts = new Uint32Array(maxDepth + 1);
  let depth = 0;
  let values = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === quote) at = stringEnd(json, at);
    else if (byte === openBracket || byte === openBrace) {
      values += 1;
      depth += 1;
      if (depth > maxDepth) throw tooBig(`is nested more than ${maxDepth} levels deep`);
      counts[depth] = 0;
    } else if (byte === closeBracket || byte === closeBrace) depth = Math.max(0, depth - 1);
    else if (byte === comma || byte === colon) {
      values += 1;
      const count = (counts[depth] ?? 0) + 1;
      if (count > maxItems)
        throw tooBig(`has more than ${maxItems.toLocaleString("en")} items in one array or object`);
      counts[depth] = count;
    }
    if (values > maxValues) throw tooBig(`has more than ${maxValues.toLocaleString("en")} values`);
  }
};

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** The position of the closing quote of the string that begins at `start`. */
const stringEnd = (json: Uint8Array, start: number): number => {
  let at = start + 1;
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1;
  return at;
};

const tooBig = (how: string): ServiceError => invalid(`The JSON ${how}; send less`);

const utf8 = new TextDecoder("utf-8", { fatal: true });

const decode = (bytes: Uint8Array): string => {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw invalid("The body is not valid UTF-8", cause);
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

const invalid = (message: string, cause?: unknown): ServiceError =>
  new ServiceError("invalid_request", message, { cause });

const unsupported = (message: string): ServiceError => new ServiceError("unsupported_content_type", message);

const tooLarge = (maxBytes: number): ServiceError =>
  new ServiceError(
    "body_too_large",
    `The body has more than ${maxBytes.toLocaleString("en")} bytes; send less`,
  );

const kindOf = (value: unknown): string =>
  Array.isArray(value) ? "an array" : value === null ? "null" : `a ${typeof value}`;

const shown = (value: string): string => JSON.stringify(value.slice(0, 100));
