import { isLoopbackHost } from "../config/formats.ts";

/**
 * Why clients may not be sent to a URI; null: they may. Allowed are https, http to the user's own machine, and the private
 * schemes of desktop applications.
 */
export const redirectFault = (uri: string): string | null => {
  const url = URL.parse(uri);
  if (url === null || uri.length > 2000 || !/^[\x21-\x7e]+$/.test(uri)) return "is not a URI";
  if (uri.includes("#")) return "must have no fragment";
  if (url.username !== "" || url.password !== "") return "must hold no credentials";
  if (url.protocol === "https:") return isPlainHost(url.hostname) ? null : "has no valid host";
  if (url.protocol === "http:")
    return isLoopbackHost(url.hostname) ? null : "must be https, or http to localhost or 127.0.0.1";
  return url.protocol.includes(".") || editors.has(url.protocol)
    ? null
    : "must be https, http to localhost or 127.0.0.1, or a scheme with a dot, as in com.example.app:";
};

/** Others could change the meaning of the header that names the host. */
const isPlainHost = (host: string): boolean => /^([\w.-]+|\[[\da-f:.]+\])$/i.test(host);

/** Schemes without a dot that applications have (RFC 8252 asks for one): others belong to systems and browsers. */
const editors = new Set(
  ["vscode", "vscode-insiders", "cursor", "windsurf", "zed", "claude"].map((scheme) => `${scheme}:`),
);

/**
 * Whether a client that registered these URIs may be sent to `asked`: exactly one of them, or one to loopback with another
 * port, which a desktop application learns only when it listens (RFC 8252). `allowed`, unless empty, is a further, exact
 * limit.
 */
export const mayRedirect = (
  asked: string,
  { registered, allowed }: { registered: readonly string[]; allowed: readonly string[] },
): boolean =>
  redirectFault(asked) === null &&
  (allowed.length === 0 || allowed.includes(asked)) &&
  registered.some((uri) => uri === asked || (isLoopback(uri) && withoutPort(uri) === withoutPort(asked)));

const isLoopback = (uri: string): boolean => {
  const url = URL.parse(uri);
  return url?.protocol === "http:" && isLoopbackHost(url.hostname);
};

const withoutPort = (uri: string): string => {
  const url = new URL(uri);
  url.port = "";
  return url.href;
};

/** The redirect as a source of the policy's `form-action`: browsers apply it also where the form's answer redirects to. */
export const formTarget = (uri: string): string => {
  const { protocol, origin, hostname } = new URL(uri);
  const isNameable = /^https?:$/.test(protocol) && !hostname.startsWith("[");
  return isNameable ? origin : protocol;
};

/** Where the user will be sent, in the user's words. */
export const shownTarget = (uri: string): string => {
  const { protocol, host, hostname } = new URL(uri);
  if (protocol === "http:") return `an application on this computer (${host})`;
  return protocol === "https:" ? hostname : `an application on this computer (${protocol})`;
};
