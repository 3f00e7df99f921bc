import { hash, timingSafeEqual } from "node:crypto";
import { isLoopbackHost } from "../config/formats.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Route } from "./route.ts";

/** The caller. `scopes`: what it may do; null: everything. */
export type Identity = { principal: string; scopes: readonly string[] | null };

/** A caller without a valid key, at an open route where keys are set. */
export const unauthenticated: Identity = { principal: "unauthenticated", scopes: [] };

/** Finds out who sent a request. Null: there is no valid key or token. */
export type Authenticate = (request: Request) => Identity | null | Promise<Identity | null>;

/** `WWW-Authenticate` of a refusal. `scope`: the caller is known, and these scopes would do; absent: it is not known. */
export type Challenge = (request: Request, scope?: string) => string;

export const bearerChallenge: Challenge = (_request, scope) =>
  scope === undefined ? "Bearer" : `Bearer error="insufficient_scope", scope="${scope}"`;

/**
 * Resolves a request to its caller, whose principal is a digest of the key. Null: there is no valid key. Without
 * configured keys every caller is `open`.
 *
 * Any right key counts, in `X-Api-Key`, `Authorization: Bearer` or `?api_key=`; of several the first in this order. A
 * client library that always sends some bearer token can therefore be used with `X-Api-Key`.
 */
export const createAuthentication = (keys: readonly string[]): ((request: Request) => Identity | null) => {
  if (keys.length === 0) return () => ({ principal: "open", scopes: null });
  const principalOfKey = createKeyCheck(keys);
  return (request) => {
    const principal = presentedKeys(request)
      .map(principalOfKey)
      .find((each) => each !== null);
    return principal === undefined ? null : { principal, scopes: null };
  };
};

/** Resolves a presented key to its principal. Null: it is none of the keys. */
export const createKeyCheck = (keys: readonly string[]): ((presented: Uint8Array) => string | null) => {
  const known = keys.map((key) => ({ digest: digest(Buffer.from(key)), principal: principalOf(key) }));
  return (presented) => {
    const offered = digest(presented);
    let principal: string | null = null;
    // Comparing with all keys takes the same time whichever matches.
    for (const key of known) if (timingSafeEqual(key.digest, offered)) principal = key.principal;
    return principal;
  };
};

const digest = (key: Uint8Array): Buffer => hash("sha256", key, "buffer");

/** A digest that names the holder of a key in logs and records. */
export const principalOf = (key: string): string => hash("sha256", `principal:${key}`).slice(0, 16);

export const presentedKeys = ({ headers, url }: Request): Buffer[] => {
  // Header values were decoded as latin1: this gives the bytes of a key beyond ASCII.
  const inHeaders = [headers.get("x-api-key"), bearer(headers.get("authorization"))]
    .filter((key) => key)
    .map((key) => Buffer.from(key ?? "", "latin1"));
  const question = url.indexOf("?");
  const inQuery = question === -1 ? [] : new URLSearchParams(url.slice(question)).getAll("api_key");
  return [...inHeaders, ...inQuery.map((key) => Buffer.from(key))];
};

export const bearer = (authorization: string | null): string | undefined =>
  /^bearer +(.+)$/i.exec(authorization ?? "")?.[1];

/**
 * Refuses requests from web pages of other origins. A page can make its visitor's browser call a service on loopback,
 * also under a host name that resolves to loopback. Each request is checked:
 *
 * - on loopback: `Host` and, if sent, `Origin` must name this machine, or the host that a proxy serves;
 * - on other addresses without keys: `Origin`, if sent, must be the requested host;
 * - on other addresses with keys: no check, because a page of another origin does not have the key.
 *
 * A request without `Host` passes: browsers always send it.
 */
export const createSourceCheck = ({ host, apiKeys, publicHost, prefix = "SERVICE" }: Served) => {
  if (isLoopbackHost(host)) {
    const ownNames = new Set([...loopbackNames, host.toLowerCase(), bracketed(host.toLowerCase())]);
    if (publicHost !== undefined) ownNames.add(publicHost.toLowerCase());
    return (headers: Headers, { anyHost = false, anyOrigin = false }: Unchecked = {}): void => {
      const asked = anyHost ? null : headers.get("host");
      if (asked !== null && !ownNames.has(hostName(asked))) throw forbiddenHost(asked, prefix);
      const origin = anyOrigin ? null : headers.get("origin");
      if (origin !== null && !ownNames.has(originHost(origin, hostName))) throw forbiddenOrigin(origin);
    };
  }
  if (apiKeys.length > 0) return (): void => {};
  return (headers: Headers, { anyOrigin = false }: Unchecked = {}): void => {
    const origin = anyOrigin ? null : headers.get("origin");
    const asked = headers.get("host")?.toLowerCase();
    if (origin !== null && originHost(origin, (value) => value) !== asked) throw forbiddenOrigin(origin);
  };
};

type Unchecked = Pick<Route, "anyOrigin" | "anyHost">;

export type Served = {
  host: string;
  apiKeys: readonly string[];
  /** Name under which a proxy on this machine serves it. */
  publicHost?: string;
  /** Prefix of the program's variables, for refusals; default `SERVICE`. */
  prefix?: string;
};

const loopbackNames = ["localhost", "127.0.0.1", "[::1]"];

const bracketed = (host: string): string => (host.includes(":") ? `[${host}]` : host);

/** `Host` without its port, lower-case; empty when it is not a host. */
const hostName = (value: string): string =>
  /^([^:[\]]+|\[[\d:a-f.]+\])(?::\d{1,5})?$/i.exec(value)?.[1]?.toLowerCase() ?? "";

/** The host of an origin; empty when there is none, as in `null`. */
const originHost = (origin: string, part: (host: string) => string): string =>
  part(/^https?:\/\/([^/]+)$/i.exec(origin)?.[1]?.toLowerCase() ?? "");

const forbiddenHost = (host: string, prefix: string): ServiceError =>
  new ServiceError(
    "forbidden_host",
    `Host ${shown(host)} is not this machine's; ask at localhost or 127.0.0.1, or set ${prefix}_HOST and ${prefix}_API_KEYS to serve other hosts`,
  );

const forbiddenOrigin = (origin: string): ServiceError =>
  new ServiceError(
    "forbidden_origin",
    `Pages of ${shown(origin)} may not use this service; ask from its own origin`,
  );

const shown = (value: string): string => JSON.stringify(value.slice(0, 100));

/**
 * Headers that let a page of another origin read an answer; the source check has decided which origins may ask. A page must
 * send a key of its own, because browsers add none: there are no cookies, and no credentials.
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

/** Answers to browsers' preflight requests, which carry no key, for the paths that pages of other origins may use. */
export const preflightRoutes = (routes: readonly Route[]): Route[] =>
  Map.groupBy(
    routes.filter(({ crossOrigin }) => crossOrigin === true),
    ({ path }) => path,
  )
    .entries()
    .map(([path, same]): Route => {
      const methods = same.map(({ method }) => method.toUpperCase());
      const answered = methods.filter((_, index) => same[index]?.refusing !== true);
      const { anyOrigin = false } = same[0] ?? {};
      return {
        method: "options",
        path,
        open: true,
        crossOrigin: true,
        anyOrigin,
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
      };
    })
    .toArray();

/** The names that the preflight asks for: the origin was checked, and no browser adds a key by itself. */
const allowedHeaders = (asked: string | null): string =>
  (asked ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => /^[\w!#$%&'*+.^`|~-]{1,100}$/.test(name))
    .slice(0, 100)
    .join(", ");
