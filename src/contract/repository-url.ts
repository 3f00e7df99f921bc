import { ServiceError } from "./errors.ts";

/*
 * How the address of a repository is understood: by the service, the command line and the page alike. Accepted are https,
 * ssh (a URL, or `git@host:path`), and where it is allowed a path of the service's disk, also as `file://`.
 */

/**
 * Checks and normalises a repository URL: host in lower case, no default port, no slash at the end. A `.git` at the end
 * stays, because some servers require it. Empty stays empty.
 * @throws ServiceError `invalid_repo_url`
 */
export const parseRepoUrl = (url: string, { allowLocal }: { allowLocal: boolean }): string => {
  if (url === "") return "";
  const refuse: Refuse = (applies, why) => {
    if (applies) throw invalid(url, why);
  };
  refuse(/[\s\p{Cc}\\]/u.test(url), "has white space, a control character or a backslash in it");
  refuse(url.startsWith("-"), "begins with a dash, which git would take for an option");
  refuse(/^[a-z0-9+.-]+::/i.test(url), "asks git to run a helper program");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1]?.toLowerCase();
  const isPath = url.startsWith("/");
  if (!isPath && scheme === undefined) return parseScp(url, refuse);
  const isHosted = !isPath && scheme !== "file";
  const hosted = isHosted ? parseHosted(url, scheme ?? "", refuse) : "";
  // Over http only a repository of this machine is taken.
  refuse(
    !allowLocal && (!isHosted || scheme === "http"),
    "is on the service's own machine, which is not allowed here; set SERVICE_ALLOW_LOCAL_REPOS=true to allow it",
  );
  if (isHosted) return hosted;
  const path = isPath ? url : url.slice("file://".length);
  refuse(!path.startsWith("/"), "has a host in it; write file:///absolute/path");
  const normal = normalPath(path);
  refuse(normal === "/", "names no repository");
  return isPath ? normal : `file://${normal}`;
};

type Refuse = (applies: boolean, why: string) => void;

const normalPath = (path: string): string => {
  const parts: string[] = [];
  for (const part of path.split("/"))
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  return `/${parts.join("/")}`;
};

/** Servers take others for the same: what is known of a repository would not be found by them. */
const onePath = (path: string): string => path.replaceAll(/\/+/g, "/").replace(/\/$/, "");

const unescaped = (escape: string): string => {
  const sign = decodeURIComponent(escape);
  return /[\w.~-]/.test(sign) ? sign : escape;
};

const credentials = "carries credentials; leave them out and set GIT_HOST and GIT_HOST_TOKEN for the service";

const parseScp = (url: string, refuse: Refuse): string => {
  refuse(/^[^/@]*:[^/]*@/.test(url), credentials);
  const [, user = "", host = "", path = ""] =
    /^([\w.][\w.-]*)@([a-z0-9][a-z0-9.-]*|\[[0-9a-f:]+\]):(.+)$/i.exec(url) ?? [];
  refuse(path === "", "is not a URL, nor an absolute path");
  refuse(path.startsWith("-"), "has a path that begins with a dash");
  const normal = onePath(path);
  refuse(normal === "", "names no repository");
  return `${user}@${host.toLowerCase()}:${normal}`;
};

const defaultPorts: Record<string, string> = { https: "443", http: "80", ssh: "22" };

const parseHosted = (url: string, scheme: string, refuse: Refuse): string => {
  refuse(!(scheme in defaultPorts), `uses ${scheme}://`);
  const parsed = URL.parse(url);
  if (parsed === null) throw invalid(url, "is not a URL");
  const { password, username, search, hash } = parsed;
  refuse(password !== "" || (username !== "" && scheme !== "ssh"), credentials);
  const host = parsed.hostname.toLowerCase();
  const path = onePath(parsed.pathname.replaceAll(/%(2[de]|3\d|[4-7][\da-f])/gi, unescaped));
  refuse(search !== "" || hash !== "", "has a query or a fragment");
  refuse(
    scheme === "http" && !["localhost", "127.0.0.1", "[::1]"].includes(host),
    "uses http, which anybody on the way can read and change",
  );
  refuse(!/^([a-z0-9_][a-z0-9._-]*|\[[0-9a-f:.]+\])$/.test(host), "has no proper host name");
  refuse(!/^([\w.][\w.-]*)?$/.test(username), "has no proper user name");
  refuse(path === "", "names no repository");
  const port = parsed.port === "" || parsed.port === defaultPorts[scheme] ? "" : `:${parsed.port}`;
  return `${scheme}://${username === "" ? "" : `${username}@`}${host}${port}${path}`;
};

const invalid = (url: string, why: string): ServiceError => {
  const shown = withoutUser(url)
    .replaceAll(/[^\x20-\x7e]/g, "?")
    .replace(/^[^/@]*:[^/]*@/, "***@")
    .replace(/[?#].*$/, "")
    .slice(0, 200);
  const instead = "Use https://host/owner/name, ssh://git@host/owner/name or git@host:owner/name.";
  return new ServiceError("invalid_repo_url", `The repository URL "${shown}" ${why}. ${instead}`);
};

/** Credentials stay where they are: the service has its own. */
export const withoutUser = (url: string): string =>
  url.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^\s/@'"]*@/i, "$1");

/** The URL of a repository that a user names in short: `acme/app` (on this git host), `github.com/acme/app`; else the word. */
export const urlOfShort = (word: string, gitHost: string): string => {
  if (/^[\w-]+\/[\w.-]+$/.test(word)) return `https://${gitHost}/${word}`;
  return /^[\w-]+(\.[\w-]+)+(\/[\w.-]+){2,}$/.test(word) ? `https://${word}` : word;
};

/**
 * A repository's name, the same for each spelling of its URL: `github.com/acme/app`. A port that is not the scheme's own is
 * part of it. A path stays one, with its `.git`: `/a/app` and `/a/app.git` may be two repositories.
 */
export const repositoryName = (url: string): string => {
  const path = url.replace(/^file:\/\//, "").replace(/(?<=[^/])\/+$/, "");
  if (path.startsWith("/")) return path;
  const [, scheme = "", user, address = path] = /^([a-z][a-z0-9+.-]*:\/\/)?([^/@]*@)?(.*)$/i.exec(path) ?? [];
  const ownPort = defaultPorts[scheme.slice(0, -3).toLowerCase()];
  // In `user@host:path` the colon is before the path.
  const separator = scheme === "" && user !== undefined ? "/" : ":";
  const named = address.replace(
    /^(\[[^\]]*\]|[^:/]+):(\d+(?=\/))?\/?/,
    (_whole, host: string, port?: string) =>
      port === undefined || port === ownPort ? `${host}/` : `${host}${separator}${port}/`,
  );
  return named.replace(/\.git$/, "").toLowerCase();
};

/** Whether a repository is called so: by any spelling of its URL, its name as lists show it, or the end of that, `acme/app`. */
export const isCalled = (url: string, name: string): boolean =>
  `/${repositoryName(url)}`.endsWith(`/${repositoryName(name)}`);

export type HostedRepo = {
  /** Host name, with the port if it is not the default of https. */
  host: string;
  owner: string;
  name: string;
};

/** Owner and name of a repository on this git host (a name with an optional port), with any protocol; else null. */
export const onGitHost = (url: string, gitHost: string): HostedRepo | null => {
  const parsed = URL.parse(url.replace(/^([\w.-]+@[^/:]+):/, "ssh://$1/"));
  if (parsed === null) return null;
  // Over ssh the port is that of sshd and not of the web host.
  const isSsh = parsed.protocol === "ssh:";
  const isThere = isSsh ? parsed.hostname === gitHost.replace(/:\d+$/, "") : parsed.host === gitHost;
  const [, owner, name] = /^\/+([\w.-]+)\/([\w.-]+?)(?:\.git)?$/.exec(parsed.pathname) ?? [];
  return isThere && owner !== undefined && name !== undefined ? { host: gitHost, owner, name } : null;
};

/** Host and owner of a repository: `github.com/acme`, with any protocol; the host where there is none. A path of the disk as it is. */
export const ownerOf = (url: string): string =>
  /^[^/]+(\/[^/]+)?(?=\/)/.exec(repositoryName(url))?.[0] ?? repositoryName(url);

/** Whether a token may be sent: only over https and only to this git host. */
export const takesToken = (url: string, gitHost: string): boolean =>
  url.startsWith("https://") && URL.parse(url)?.host === gitHost.replace(/:443$/, "");
