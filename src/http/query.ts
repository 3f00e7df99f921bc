import { ServiceError } from "../contract/errors.ts";
import { unknownName } from "./faults.ts";

/**
 * The query parameters of `url`, decoded, without `api_key`. Stricter than `URLSearchParams`: a parameter given twice
 * and a broken percent-encoding are refused. An empty value means "not given" and is left out.
 */
export const readQuery = (url: string): Map<string, string> => {
  const parameters = new Map<string, string>();
  const seen = new Set<string>();
  for (const [rawName, rawValue] of pieces(url)) {
    const name = decoded(rawName);
    if (name === "api_key") continue;
    if (seen.has(name))
      throw new ServiceError("invalid_request", `${name.slice(0, 100)}: is given more than once`);
    seen.add(name);
    const value = decoded(rawValue);
    if (value !== "") parameters.set(name, value);
  }
  return parameters;
};

/**
 * The event after which a reader wants to go on; null: from the beginning. `Last-Event-ID` is what a reader that reconnects
 * says; the address keeps the `after` it began with.
 */
export const readPosition = ({ url, headers }: Request, form: RegExp, what: string): string | null => {
  const query = readQuery(url);
  const unknown = [...query.keys()].find((name) => name !== "after");
  if (unknown !== undefined) throw new ServiceError("invalid_request", unknownName(unknown, ["after"]));
  const header = headers.get("last-event-id");
  const position = header || query.get("after") || null;
  if (position !== null && !form.test(position))
    throw new ServiceError("invalid_request", `${header ? "Last-Event-ID" : "after"}: must be ${what}`);
  return position;
};

/** Path and query of `url` for the log, with the values of whatever might be a key masked. */
export const maskedTarget = (url: string): string => {
  const start = url.indexOf("/", url.indexOf("://") + 3);
  const target = url.slice(start, start + longestLogged);
  const question = target.indexOf("?");
  if (question === -1) return target;
  const query = pieces(target).map(([name, value]) =>
    mayBeSecret(name) ? `${name}=***` : `${name}=${value}`,
  );
  return `${target.slice(0, question)}?${query.join("&")}`;
};

const longestLogged = 1000;

/** Refuses a path whose percent-encoding is broken. */
export const checkPathEncoding = (url: string): void => {
  const question = url.indexOf("?");
  const path = question === -1 ? url : url.slice(0, question);
  if (path.includes("%")) decoded(path);
};

/** Name and value of each parameter, still encoded. */
const pieces = (url: string): [name: string, value: string][] => {
  const question = url.indexOf("?");
  if (question === -1) return [];
  const [query = ""] = url.slice(question + 1).split("#");
  return query
    .split("&")
    .filter((piece) => piece !== "")
    .map((piece) => {
      const equals = piece.indexOf("=");
      return equals === -1 ? [piece, ""] : [piece.slice(0, equals), piece.slice(equals + 1)];
    });
};

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll("+", "%20"));
  } catch (cause) {
    throw new ServiceError(
      "invalid_request",
      "The address has a broken percent-encoding; encode it as UTF-8, % as %25",
      {
        cause,
      },
    );
  }
};

const mayBeSecret = (name: string): boolean => {
  try {
    return /key|token|secret|auth|pass|session/i.test(decodeURIComponent(name));
  } catch {
    // Undecodable: nobody can tell what it is.
    return true;
  }
};
