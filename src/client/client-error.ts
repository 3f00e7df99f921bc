type Details = { status: number; code: string; retryAfter?: number | undefined; cause?: unknown };

/** Why a call failed. `message` is a sentence for the user. */
export class ClientError extends Error {
  override name = "ClientError";
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** Code of the failure body; `unreachable`, `no_answer`, `timeout` or `not_the_service` where there is none. */
  readonly code: string;
  /** Seconds after which a retry makes sense. */
  readonly retryAfter: number | undefined;

  constructor(message: string, { status, code, retryAfter, cause }: Details) {
    super(message, { cause });
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** The error for an unsuccessful answer. `text` is its body; `keyed`: the request had a key. */
export const errorOfAnswer = (
  response: Response,
  text: string,
  { baseUrl, keyed }: { baseUrl: string; keyed: boolean },
): ClientError => {
  const { status } = response;
  const failure = failureIn(parsedJson(text));
  if (status === 401 && failure !== null) {
    const way = "set SERVICE_API_KEY to one of the keys in the service's SERVICE_API_KEYS";
    const what = keyed ? "does not accept the API key that was sent" : "asks for an API key";
    return new ClientError(`${baseUrl} ${what}: ${way}`, { status, code: "unauthorized" });
  }
  if (failure?.code === undefined) return notTheService(response, baseUrl);
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  return new ClientError(failure.error, {
    status,
    code: failure.code,
    retryAfter: Number.isFinite(retryAfter) ? retryAfter : undefined,
  });
};

/** Another program, or a proxy in between, has answered. */
export const notTheService = ({ status, headers }: Response, baseUrl: string): ClientError => {
  const type = headers.get("content-type") ?? "no content type";
  return new ClientError(
    `${baseUrl} answered ${status} with ${type}, which is not what the service says; check SERVICE_HOST, SERVICE_PORT and any proxy between`,
    { status, code: "not_the_service" },
  );
};

export const errorOfFetch = (cause: unknown, baseUrl: string): ClientError => {
  if (isTimeout(cause)) return timedOut(cause, baseUrl);
  const codes = [cause, cause instanceof Error ? cause.cause : undefined].map(codeOf);
  if (codes.includes("UND_ERR_HEADERS_TIMEOUT")) {
    return noAnswer(`${baseUrl} took too long to answer; the request continues there`, cause);
  }
  if (codes.includes("UND_ERR_SOCKET") || codes.includes("ECONNRESET")) return brokenOff(cause, baseUrl);
  const way = "start it with svc serve, or set SERVICE_HOST and SERVICE_PORT";
  return new ClientError(`No service answers at ${baseUrl}; ${way}`, {
    status: 0,
    code: "unreachable",
    cause,
  });
};

export const brokenOff = (cause: unknown, baseUrl: string): ClientError =>
  isTimeout(cause)
    ? timedOut(cause, baseUrl)
    : noAnswer(`${baseUrl} broke off the connection; look into the service's log`, cause);

/** The reason of `AbortSignal.timeout`. */
const isTimeout = (cause: unknown): boolean => cause instanceof Error && cause.name === "TimeoutError";

const timedOut = (cause: unknown, baseUrl: string): ClientError =>
  new ClientError(`${baseUrl} took too long to answer`, { status: 0, code: "timeout", cause });

const noAnswer = (message: string, cause: unknown): ClientError =>
  new ClientError(message, { status: 0, code: "no_answer", cause });

type FailureText = { error: string; code?: string };

/** Reads a failure body, of the service (that of 401 has no code) or as `publicFailureIn`. Null: it is neither. */
const failureIn = (value: unknown): FailureText | null => {
  const { error, code } = fieldsOf(value);
  if (typeof error !== "string") return publicFailureIn(value);
  return { error, ...(typeof code === "string" && { code }) };
};

/** Reads a failure body of the chat endpoints, or a failure inside a stream, in the public format. Null: it is none. */
export const publicFailureIn = (value: unknown): Required<FailureText> | null => {
  const { message, type, code } = fieldsOf(fieldsOf(value)["error"]);
  if (typeof message !== "string" || typeof type !== "string") return null;
  return { error: message, code: typeof code === "string" ? code : type };
};

// By hand: a schema library would be half of the page in the browser.
const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};

/** The value of a JSON text; undefined for any other text. */
export const parsedJson = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
};

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";
