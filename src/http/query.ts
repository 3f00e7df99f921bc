import { ServiceError } from "../contract/errors.ts";
import { unknownName } from "./faults.ts";

/**
 * The query parameters of `url` without `api_key`. Empty values are left out. A parameter given twice and broken
 * percent-encoding are refused, which `URLSearchParams` accepts.
 */
export const readQuery = (url: string): Map<string, string> => {
  const { search, searchParams } = new URL(url);
  checkEncoding(search.replaceAll(/(?<=[?&]api_key=)[^&]*/g, ""));
  searchParams.delete("api_key");
  const parameters = new Map<string, string>();
  for (const [name, value] of searchParams) {
    if (parameters.has(name))
      throw new ServiceError("invalid_request", `${name.slice(0, 100)}: is given more than once`);
    parameters.set(name, value);
  }
  return new Map([...parameters].filter(([, value]) => value !== ""));
};

/** The event to continue after; null: none. A reader that reconnects sends `Last-Event-ID` beside its first `after`. */
export const readPosition = (
  { url, headers }: Request,
  form: RegExp,
  what: string,
  known: readonly string[] = ["after"],
): string | null => {
  const query = readQuery(url);
  const unknown = [...query.keys()].find((name) => !known.includes(name));
  if (unknown !== undefined) throw new ServiceError("invalid_request", unknownName(unknown, known));
  const header = headers.get("last-event-id");
  const position = header || query.get("after") || null;
  if (position !== null && !form.test(position))
    throw new ServiceError("invalid_request", `${header ? "Last-Event-ID" : "after"}: must be ${what}`);
  return position;
};

/** Path and query of `url` for the log. Values that may be keys are masked. */
export const maskedTarget = (url: string): string => {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const target = url.slice(start, start + maxLoggedLength);
  const question = target.indexOf("?");
  if (question === -1) return target;
  const query = target
    .slice(question)
    .replaceAll(/([^?=&#]+)=[^&#]*/g, (parameter, name: string) =>
      mayBeSecret(name) ? `${name}=***` : parameter,
    );
  return `${target.slice(0, question)}${query}`;
};

const maxLoggedLength = 1000;

const mayBeSecret = (name: string): boolean => {
  try {
    return /key|token|secret|auth|pass|session|state|code/i.test(decodeURIComponent(name));
  } catch {
    return true;
  }
};

export const checkPathEncoding = (url: string): void => checkEncoding(url.split("?", 1).join());

const checkEncoding = (text: string): void => {
  try {
    decodeURIComponent(text);
  } catch (cause) {
    const message = "The address has a broken percent-encoding; encode it as UTF-8, % as %25";
    throw new ServiceError("invalid_request", message, { cause });
  }
};
