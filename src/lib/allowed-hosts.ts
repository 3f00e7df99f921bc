import { isIP } from "node:net";

/** What an allow-list names. */
export type AllowedHost = {
  /** In lower case: a name, an address, or `*.example.com` for all names below. */
  name: string;
  /** Null: 443 and 80. */
  port: number | null;
  /** It may lead to an address of this host: only the operator can say so, and only with a port. */
  local: boolean;
  /** It may lead to addresses of the Internet only. Absent: to private ones too. */
  isPublic?: boolean;
};

/** What stands for several hosts in an allow-list. */
const presets: Readonly<Record<string, readonly string[]>> = {
  npm: ["registry.npmjs.org", "registry.yarnpkg.com"],
  pypi: ["pypi.org", "files.pythonhosted.org"],
  debian: ["deb.debian.org", "security.debian.org"],
  crates: ["crates.io", "index.crates.io", "static.crates.io"],
  go: ["proxy.golang.org", "sum.golang.org"],
  github: [
    "github.com",
    "api.github.com",
    "codeload.github.com",
    "objects.githubusercontent.com",
    "raw.githubusercontent.com",
    "release-assets.githubusercontent.com",
    "lfs.github.com",
  ],
};

/** Stands for every public host. */
export const everyHost = "*";

/**
 * Hosts of an allow-list: names, `name:port`, `*.name`, presets. `byOperator`: of the service's own settings.
 * @throws Error with a sentence
 */
export const parseHosts = (texts: readonly string[], byOperator = false): AllowedHost[] =>
  texts
    .flatMap((text) => (Object.hasOwn(presets, text) ? (presets[text] ?? []) : [text]))
    .map((text) => parseHost(text, byOperator));

/** Hosts of packages and code, which are many people's: what is sent there anybody may read. */
export const presetHosts = (): AllowedHost[] => parseHosts(Object.keys(presets));

/** Hosts that anybody may have named, as the operator's list has them: only there they lead to private or local addresses. */
export const grantedHosts = (texts: readonly string[], operators: readonly AllowedHost[]): AllowedHost[] =>
  parseHosts(texts).map((host) => {
    const how = judgeHost(operators, host);
    return { ...host, local: how === "local", isPublic: how === "refused" || how === "public" };
  });

/** As `judge`. Without a port both usual ones must be listed. */
export const judgeHost = (hosts: readonly AllowedHost[], { name, port }: AllowedHost): Judged => {
  const all = (port === null ? [443, 80] : [port]).map((each) => judge(hosts, { name, port: each }));
  return all.find((each) => each === "refused") ?? all[0] ?? "refused";
};

export const isPort = (number: number): boolean => number >= 1 && number <= 65_535;

/** Writes a host as it stands before a port: an IPv6 address in brackets. */
export const bracketed = (name: string): string => (name.includes(":") ? `[${name}]` : name);

const parseHost = (text: string, byOperator: boolean): AllowedHost => {
  if (text === everyHost) return { name: everyHost, port: null, local: false, isPublic: true };
  const [, wildcard = "", host = "", port] =
    /^(\*\.)?([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const number = port === undefined ? null : Number(port);
  const isWrong = host === "" || (number !== null && !isPort(number));
  const name = host.toLowerCase().replace(/^\[|\]$/g, "");
  if (isWrong || (wildcard !== "" && (isIP(name) !== 0 || !name.includes("."))))
    throw new Error(
      `"${text.slice(0, 200)}" is no host: give a name (registry.example.com), a name with a port (db.example.com:5432), all names below one (*.example.com), or one of ${Object.keys(presets).join(", ")}, ${everyHost}`,
    );
  return {
    name: `${wildcard}${name}`,
    port: number,
    local: byOperator && number !== null && wildcard === "",
  };
};

/** What a connection may lead to: addresses of the Internet, of private networks too, of this host as well. */
export type Judged = "refused" | "public" | "allowed" | "local";

/** Whether the list allows a connection, and to which addresses. */
export const judge = (
  hosts: readonly AllowedHost[],
  { name, port }: { name: string; port: number },
): Judged => {
  const asked = name.toLowerCase();
  const fits = hosts.filter(
    (host) =>
      (host.port === null ? port === 443 || port === 80 : host.port === port) &&
      (host.name.startsWith("*") ? asked.endsWith(host.name.slice(1)) : host.name === asked),
  );
  if (fits.length === 0) return "refused";
  if (fits.some(({ local }) => local)) return "local";
  return fits.every(({ isPublic }) => isPublic) ? "public" : "allowed";
};
