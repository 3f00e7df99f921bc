import { ownerOf, parseRepoUrl } from "../contract/repository-url.ts";
import { pathBytes } from "./path-bytes.ts";

/** A submodule as `.gitmodules` declares it. Path: bytes, one character each. */
export type Declared = { name: string; path: string; url: string; update: string };

/** `listed`: what `git config --null --list` says of the file, as bytes. */
export const declaredIn = (listed: string): Declared[] => {
  const found = new Map<string, Declared>();
  for (const entry of listed.split("\0")) {
    const [, name, key, value = ""] = /^submodule\.([^]*)\.(path|url|update)\n([^]*)$/.exec(entry) ?? [];
    if (name === undefined || key === undefined) continue;
    found.set(name, {
      ...(found.get(name) ?? { name, path: "", url: "", update: "" }),
      [key]: key === "url" ? pathBytes(value).toString() : value,
    });
  }
  return [...found.values()];
};

type Around = {
  /** URL of the repository that has the file, as `parseRepoUrl` gave it. */
  superproject: string;
  /** Names of all its submodules. */
  names: readonly string[];
  gitHost: string;
  /** Further owners on it. */
  owners: readonly string[];
  /** Whether a repository may be on the service's disk. */
  allowLocal: boolean;
};

/**
 * The URL that a submodule is fetched from.
 *
 * | what it has                                                        | becomes                                    |
 * |--------------------------------------------------------------------|--------------------------------------------|
 * | a name or path with `..`, an empty part, `.git`, a leading `-`     | refused                                    |
 * | a name that lies in another's (`a/b` in `a`)                       | refused: so would its git directory        |
 * | `update = !command`                                                | refused                                    |
 * | a URL with `./` or `../` at the beginning                          | is relative to that of the superproject    |
 * | a URL that `repo_url` of a job could not be                        | refused                                    |
 * | a path, `file://` or `http://`, and the superproject has no such   | refused                                    |
 * | ssh, to another host than the superproject's and GIT_HOST          | refused: the service's key is not for it   |
 * | ssh, to a repository of an owner who has no part in the superproject | refused: see `sharesOwner`               |
 *
 * @throws Error with the reason, which follows "it "
 */
export const urlOf = ({ name, path, url, update }: Declared, around: Around): string => {
  const { superproject, names, gitHost, allowLocal } = around;
  if (!isPlain(name)) throw new Error("has a name that is not allowed");
  if (!isPlain(path)) throw new Error("has a path that is not allowed");
  if (names.some((other) => name.startsWith(`${other}/`)))
    throw new Error("has a name that lies in another's");
  if (update.startsWith("!")) throw new Error("names a command for its update");
  const absolute = /^\.\.?\//.test(url) ? relativeTo(superproject, url) : url;
  if (absolute === "") throw new Error("has no URL");
  const isOnDisk = /^(file:|http:|\/)/i.test(absolute);
  if (isOnDisk && !sameKind.test(superproject)) throw new Error(`has a URL on this machine (${absolute})`);
  const parsed = parseRepoUrl(absolute, { allowLocal });
  const host = sshHost(parsed);
  if (host !== null && ![hostOf(superproject), gitHost.replace(/:\d+$/, "")].includes(host))
    throw new Error(`is reached by ssh at another host than its superproject (${parsed})`);
  if (host !== null && !sharesOwner(parsed, around))
    throw new Error(`is reached by ssh and has another owner than its superproject (${parsed}): ${cure}`);
  return parsed;
};

/** How an operator lets the service's credentials reach a submodule of another owner. */
export const cure = "an operator who trusts that owner names it in GIT_HOST_OWNERS";

/** Whether the service's credentials may read a submodule: who knows the name of a private one would otherwise get its files. */
export const sharesOwner = (
  url: string,
  { superproject, gitHost, owners }: Pick<Around, "superproject" | "gitHost" | "owners">,
): boolean => {
  // A URL of https has the host's port in its name, one of ssh has not.
  const hosts = [gitHost.replace(/:443$/, ""), gitHost.replace(/:\d+$/, "")];
  const trusted = owners.flatMap((owner) => hosts.map((host) => `${host}/${owner}`.toLowerCase()));
  return [ownerOf(superproject), ...trusted].includes(ownerOf(url));
};

const sameKind = /^(file:|http:|\/)/;

/** Of a name or path, as bytes. */
const isPlain = (name: string): boolean =>
  name.length <= 255 &&
  !/^-|\p{Cc}|\\/u.test(name) &&
  name.split("/").every((part) => part !== "" && !/^(\.\.?|\.git)$/i.test(part));

/** As git does it, but never beyond the host. */
const relativeTo = (superproject: string, url: string): string => {
  let base = superproject;
  let rest = url;
  for (let step = /^\.(\.?)\/+/.exec(rest); step !== null; step = /^\.(\.?)\/+/.exec(rest)) {
    rest = rest.slice(step[0].length);
    if (step[1] === "") continue;
    const [, above] = /^((?:[a-z]+:\/\/[^/]+|[^/:]+@[^:]+:|)\/?.*?)\/*[^/:]+$/.exec(base) ?? [];
    if (above === undefined || /^[a-z]+:\/*$/.test(above))
      throw new Error("leads out of its superproject's host");
    base = above;
  }
  if (rest.split("/").includes("..")) throw new Error("has a URL with .. in its middle");
  return `${base}${/[:/]$/.test(base) ? "" : "/"}${rest}`;
};

const hostOf = (url: string): string | null =>
  /^[^/@]+@([^/:]+):/.exec(url)?.[1] ?? URL.parse(url)?.hostname ?? null;

const sshHost = (url: string): string | null => (/^(ssh:|[^/:]+@)/.test(url) ? hostOf(url) : null);
