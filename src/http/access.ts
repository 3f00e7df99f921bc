import { hash, timingSafeEqual } from "node:crypto";
import { isLoopbackHost } from "../config/formats.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Route } from "./route.ts";

/** Who asks without a valid key where keys are set, at a route that answers without one. */
export const anonymous = "stranger";

/**
 * Says who asks: the caller's principal (a digest of the key); null: nobody with a valid key. With no keys configured everyone
 * is `open`.
 *
 * One key counts: `X-Api-Key`, else `Authorization: Bearer`, else `?api_key=`. A key sent in a later place is not
 * looked at, so that a client library that insists on some bearer token can still be used with `X-Api-Key`.
 */
export const createAuthentication = (keys: readonly string[]): ((request: Request) => string | null) => {
  if (keys.length === 0) return () => "open";
  const known = keys.map((key) => ({ digest: digest(Buffer.from(key)), principal: principalOf(key) }));
  return (request) => {
    const presented = presentedKey(request);
    if (presented === undefined) return null;
    const offered = digest(presented);
    let principal: string | null = null;
    // All keys are compared, whichever fits: the time taken says nothing about them.
    for (const key of known) if (timingSafeEqual(key.digest, offered)) principal = key.principal;
    return principal;
  };
};

const digest = (key: Uint8Array): Buffer => hash("sha256", key, "buffer");

const principalOf = (key: string): string => hash("sha256", `principal:${key}`).slice(0, 16);

const presentedKey = ({ headers, url }: Request): Buffer | undefined => {
  // Header values are bytes, read as latin1: back to bytes, so that a key beyond ASCII fits too.
  const header = headers.get("x-api-key") || bearer(headers.get("authorization"));
  if (header) return Buffer.from(header, "latin1");
  const question = url.indexOf("?");
  if (question === -1) return undefined;
  const [key, ...more] = new URLSearchParams(url.slice(question)).getAll("api_key");
  // A key given twice is no key: which of them counts must not be a matter of the reader.
  return key && more.length === 0 ? Buffer.from(key) : undefined;
};

const bearer = (authorization: string | null): string | undefined =>
  /^bearer +(.+)$/i.exec(authorization ?? "")?.[1];

/**
 * Keeps web pages of other origins out. A page can make its visitor's browser ask a service on loopback (also under a
 * host name of its own that resolves there), so what makes loopback safe without a key is checked on each request:
 *
 * - bound to loopback: `Host` and, if there is one, `Origin` must name this machine;
 * - bound elsewhere without keys: `Origin`, if there is one, must be the host that was asked;
 * - bound elsewhere with keys: no check, a page of another origin does not have the key.
 *
 * A request without `Host` is let through: browsers always send it.
 */
export const createSourceCheck = ({ host, apiKeys }: { host: string; apiKeys: readonly string[] }) => {
  if (isLoopbackHost(host)) {
    const ours = new Set([...loopbackNames, host.toLowerCase(), bracketed(host.toLowerCase())]);
    return (headers: Headers): void => {
      const asked = headers.get("host");
      if (asked !== null && !ours.has(hostName(asked))) throw forbiddenHost(asked);
      const origin = headers.get("origin");
      if (origin !== null && !ours.has(originHost(origin, hostName))) throw forbiddenOrigin(origin);
    };
  }
  if (apiKeys.length > 0) return (): void => {};
  return (headers: Headers): void => {
    const origin = headers.get("origin");
    const asked = headers.get("host")?.toLowerCase();
    if (origin !== null && originHost(origin, (value) => value) !== asked) throw forbiddenOrigin(origin);
  };
};

const loopbackNames = ["localhost", "127.0.0.1", "[::1]"];

const bracketed = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/** `Host` without its port, lower-case; empty when it is not a host. */
const hostName = (value: string): string =>
  /^([^:[\]]+|\[[\d:a-f.]+\])(?::\d{1,5})?$/i.exec(value)?.[1]?.toLowerCase() ?? "";

/** The host of an origin; empty for `null` and other things that have none. */
const originHost = (origin: string, part: (host: string) => string): string =>
  part(/^https?:\/\/([^/]+)$/i.exec(origin)?.[1]?.toLowerCase() ?? "");

const forbiddenHost = (host: string): ServiceError =>
  new ServiceError(
    "forbidden_host",
    `Host ${shown(host)} is not this machine's; ask at localhost or 127.0.0.1, or set SERVICE_HOST and SERVICE_API_KEYS to serve other hosts`,
  );

const forbiddenOrigin = (origin: string): ServiceError =>
  new ServiceError(
    "forbidden_origin",
    `Pages of ${shown(origin)} may not use this service; ask from its own origin`,
  );

const shown = (value: string): string => JSON.stringify(value.slice(0, 100));

/**
 * Headers that let a page of another origin read an answer. Which origins may ask is decided before, by the source
 * check: on loopback pages of this machine, elsewhere with keys any page. That page must hold a key of its own, since
 * no browser adds one by itself (there are no cookies, and credentials are not allowed here).
 */
export const crossOriginHeaders = (headers: Headers): Record<string, string> => {
  const origin = headers.get("origin");
  if (origin === null) return { vary: "Origin" };
  return {
    vary: "Origin",
    "access-control-allow-origin": origin,
    "access-control-expose-headers": [
      "Mcp-Session-Id, WWW-Authenticate, Retry-After, X-Request-Id, X-Client-Request-Id, X-Conversation-Id",
      "X-Service-Conversation-Source, X-Service-Ignored-Params, X-Should-Retry",
    ].join(", "),
  };
};

/**
 * Answers what a browser asks before it lets a page send a request with a key or JSON; such a question has no key.
 * @param methods those that a page may try
 * @param answered those of them that are answered with more than a refusal that the page can read
 */
export const preflightRoute = (
  path: string,
  methods: readonly string[],
  answered: readonly string[] = methods,
): Route => ({
  method: "options",
  path,
  open: true,
  crossOrigin: true,
  handle: ({ request: { headers } }) => ({
    status: 204,
    headers: {
      allow: [...answered, "OPTIONS"].join(", "),
      "access-control-allow-methods": methods.join(", "),
      "access-control-allow-headers": allowedHeaders(headers.get("access-control-request-headers")),
      "access-control-max-age": "600",
    },
    body: null,
  }),
});

const named = [
  "Accept",
  "Authorization",
  "Content-Type",
  "Last-Event-ID",
  "MCP-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
  "Mcp-Session-Id",
  "X-Api-Key",
];

/**
 * Those with names of the client's choice are taken from the question: the parameters that an MCP client mirrors are named
 * by the tool, and clients of chat completions describe themselves and their chats in many ways.
 */
const allowedHeaders = (asked: string | null): string => {
  const mirrored = (asked ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => /^(mcp-param|x|openai|http|idempotency)-[\w-]{1,100}$/i.test(name));
  return [...named, ...mirrored.slice(0, 50)].join(", ");
};
