import { isLoopbackHost } from "../config/loopback.ts";
import { ServiceError } from "../contract/errors.ts";

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
