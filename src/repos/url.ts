import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { posix } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import { withoutCredentials } from "../lib/git.ts";

/**
 * Checks and normalises a repository URL: host in lower case, no default port, no slash at the end. A `.git` at the end
 * stays, because some servers require it. Empty stays empty.
 * @throws ServiceError `invalid_repo_url`
 */
export const parseRepoUrl = (url: string, { allowLocal }: { allowLocal: boolean }): string => {
  if (url === "") return "";
  if (/[\s\p{Cc}\\]/u.test(url))
    throw invalid(url, "has white space, a control character or a backslash in it");
  if (url.startsWith("-")) throw invalid(url, "begins with a dash, which git would take for an option");
  if (/^[a-z0-9+.-]+::/i.test(url)) throw invalid(url, "asks git to run a helper program");
  if (url.startsWith("/")) return parseLocal(url, url, allowLocal);
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  if (scheme === undefined) return parseScp(url);
  if (scheme === "file") return parseLocal(url, url.slice("file://".length), allowLocal);
  return parseHosted(url, scheme);
};

/**
 * Refuses a local path or `file://` URL without a repository, or with a shallow one. Does not check other URLs.
 * @throws ServiceError `invalid_repo_url`
 */
export const checkLocalRepository = async (url: string): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  // git decodes %20 and the like in a file:// URL: this path may be another one.
  if (!path.startsWith("/") || (path !== url && path.includes("%"))) return;
  for (const file of [`${path}/.git/shallow`, `${path}/shallow`, `${path}.git/shallow`])
    if ((await stat(file).catch(() => null)) !== null)
      throw new ServiceError("invalid_repo_url", shallowRepository(url));
  for (const file of [`${path}/.git`, `${path}/HEAD`, `${path}.git/HEAD`])
    if ((await stat(file).catch(() => null)) !== null) return;
  throw new ServiceError(
    "invalid_repo_url",
    `There is no git repository at ${url}; give the path of one, or an https or ssh URL`,
  );
};

/** git fetches no branch of a shallow repository, and calls that a success. */
export const shallowRepository = (url: string): string =>
  `The repository ${url} is shallow: it has only a part of its history. Run in it: git fetch --unshallow`;

/**
 * First 12 hex digits of the sha256 of a URL that `parseRepoUrl` gave, without `.git`. A local path keeps its `.git`:
 * `/a/app` and `/a/app.git` may be two repositories.
 */
export const repoKey = (url: string): string => {
  const isLocal = /^(file:\/)?\//.test(url);
  const name = isLocal ? url : url.replace(/\.git$/, "").replace(/\/+$/, "");
  return createHash("sha256").update(name).digest("hex").slice(0, 12);
};

const parseLocal = (url: string, path: string, allowLocal: boolean): string => {
  if (!allowLocal) {
    throw invalid(
      url,
      "is on the service's own disk, which is not allowed here; set SERVICE_ALLOW_LOCAL_REPOS=true to allow it",
    );
  }
  if (!path.startsWith("/")) throw invalid(url, "has a host in it; write file:///absolute/path");
  const normal = posix.normalize(path).replace(/\/+$/, "");
  if (normal === "") throw invalid(url, "names no repository");
  return url.startsWith("/") ? normal : `file://${normal}`;
};

const parseScp = (url: string): string => {
  if (/^[^/@]*:[^/]*@/.test(url)) throw withCredentials(url);
  const [, user, host, path] = /^([\w.][\w.-]*)@([a-z0-9][a-z0-9.-]*|\[[0-9a-f:]+\]):(.+)$/i.exec(url) ?? [];
  if (user === undefined || host === undefined || path === undefined)
    throw invalid(url, "is not a URL, nor an absolute path");
  if (path.startsWith("-")) throw invalid(url, "has a path that begins with a dash");
  const normal = path.replace(/\/+$/, "");
  if (normal === "") throw invalid(url, "names no repository");
  return `${user}@${host.toLowerCase()}:${normal}`;
};

const defaultPorts: Record<string, string> = { https: "443", http: "80", ssh: "22" };

const parseHosted = (url: string, scheme: string): string => {
  if (!(scheme in defaultPorts)) throw invalid(url, `uses ${scheme}://`);
  const parsed = URL.parse(url);
  if (parsed === null) throw invalid(url, "is not a URL");
  if (parsed.password !== "" || (parsed.username !== "" && scheme !== "ssh")) throw withCredentials(url);
  const host = parsed.hostname.toLowerCase();
  const path = parsed.pathname.replace(/\/+$/, "");
  const fault = faults.find(({ applies }) => applies({ scheme, host, path, parsed }));
  if (fault !== undefined) throw invalid(url, fault.why);
  const user = parsed.username === "" ? "" : `${parsed.username}@`;
  const port = parsed.port === "" || parsed.port === defaultPorts[scheme] ? "" : `:${parsed.port}`;
  return `${scheme}://${user}${host}${port}${path}`;
};

type Parts = { scheme: string; host: string; path: string; parsed: URL };

const faults: { applies: (parts: Parts) => boolean; why: string }[] = [
  { applies: ({ parsed }) => parsed.search !== "" || parsed.hash !== "", why: "has a query or a fragment" },
  {
    applies: ({ scheme, host }) => scheme === "http" && !["localhost", "127.0.0.1", "[::1]"].includes(host),
    why: "uses http, which anybody on the way can read and change",
  },
  {
    applies: ({ host }) => !/^([a-z0-9_][a-z0-9._-]*|\[[0-9a-f:.]+\])$/.test(host),
    why: "has no proper host name",
  },
  { applies: ({ parsed }) => !/^([\w.][\w.-]*)?$/.test(parsed.username), why: "has no proper user name" },
  { applies: ({ path }) => path === "", why: "names no repository" },
];

const withCredentials = (url: string): ServiceError =>
  invalid(url, "carries credentials; leave them out and set GIT_HOST and GIT_HOST_TOKEN for the service");

const invalid = (url: string, why: string): ServiceError => {
  const shown = withoutCredentials(url)
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .replace(/^[^/@]*:[^/]*@/, "***@")
    .replace(/[?#].*$/, "")
    .slice(0, 200);
  const instead = "Use https://host/owner/name, ssh://git@host/owner/name or git@host:owner/name.";
  return new ServiceError("invalid_repo_url", `The repository URL "${shown}" ${why}. ${instead}`);
};

export type HostedRepo = {
  /** Host name, with the port if it is not the default of https. */
  host: string;
  owner: string;
  name: string;
};

/** Owner and name of a repository on this git host (a name with an optional port), with any protocol; else null. */
export const onGitHost = (url: string, gitHost: string): HostedRepo | null => {
  const { host, path, ssh } = address(url);
  // Over ssh the port is that of sshd and not of the web host.
  const same = ssh ? host === gitHost.replace(/:\d+$/, "") : host === gitHost;
  const [, owner, name] = /^\/?([\w.-]+)\/([\w.-]+?)(?:\.git)?$/.exec(path) ?? [];
  return same && owner !== undefined && name !== undefined ? { host: gitHost, owner, name } : null;
};

/** Whether a token may be sent: only over https and only to this git host. */
export const takesToken = (url: string, gitHost: string): boolean =>
  url.startsWith("https://") && URL.parse(url)?.host === gitHost.replace(/:443$/, "");

const address = (url: string): { host: string; path: string; ssh: boolean } => {
  const scp = /^[\w.-]+@([^/:]+):(.+)$/.exec(url);
  if (scp !== null) return { host: scp[1] ?? "", path: scp[2] ?? "", ssh: true };
  const parsed = URL.parse(url);
  if (parsed === null || parsed.protocol === "file:") return { host: "", path: "", ssh: false };
  const ssh = parsed.protocol === "ssh:";
  return { host: ssh ? parsed.hostname : parsed.host, path: parsed.pathname, ssh };
};
