import { isLoopbackHost } from "../config/formats.ts";

/**
 * Why clients may not be sent to a URI; null: they may. Allowed are https, http to the user's own machine, and the schemes
 * of applications, unless they belong to a browser or system that runs or reads what they name.
 */
export const redirectFault = (uri: string): string | null => {
  const url = URL.parse(uri);
  if (url === null || uri.length > 2000 || !/^[\x21-\x7e]+$/.test(uri)) return "is not a URI";
  if (uri.includes("#")) return "must have no fragment";
  if (url.username !== "" || url.password !== "") return "must hold no credentials";
  if (url.protocol === "https:") return isPlainHost(url.hostname) ? null : "has no valid host";
  if (url.protocol === "http:")
    return isLoopbackHost(url.hostname) ? null : "must be https, or http to localhost or 127.0.0.1";
  return systemSchemes.test(url.protocol)
    ? "must be https, http to localhost or 127.0.0.1, or an application's own scheme"
    : null;
};

/** Others could change the meaning of the header that names the host. */
const isPlainHost = (host: string): boolean => /^([\w.-]+|\[[\da-f:.]+\])$/i.test(host);

/** Schemes that no application owns: each address runs or reads something, or asks a program of the system to do so. */
const systemSchemes = new RegExp(
  `^(${[
    // Of browsers.
    "javascript|vbscript|livescript|data|blob|file|filesystem|about|view-source|jar|mhtml|resource|content|devtools",
    "(chrome|moz|safari|edge)(-.*)?",
    // Of operating systems.
    "ms-.*|microsoft-.*|shell|search|search-ms|hcp|res|mk|intent|android-app|applescript|itms.*|x-(apple|man).*|jnlps?",
    // Of the network.
    "ftps?|sftp|ssh|telnet|rlogin|vnc|rdp|smb|cifs|afp|nfs|ldaps?|gopher|wss?|git|mailto|tel|sms|sips?",
  ].join("|")}):$`,
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

/** Where the user will be sent, in the user's words. */
export const shownTarget = (uri: string): string => {
  const { protocol, host, hostname } = new URL(uri);
  if (protocol === "http:") return `an application on this computer (${host})`;
  return protocol === "https:" ? hostname : `an application on this computer (${protocol})`;
};
