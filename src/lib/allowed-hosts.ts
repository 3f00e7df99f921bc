import { isIP } from "node:net";

/** What an allow-list names. */
export type AllowedHost = {
  /** In lower case: a name, an address, or `*.example.com` for all names below. */
  name: string;
  /** Null: 443 and 80. */
  port: number | null;
  /** It may lead to an address of this host: only the operator can say so, and only with a port. */
  local: boolean;
};

/** What stands for several hosts in an allow-list. */
const presets: Readonly<Record<string, readonly string[]>> = {
  npm: ["registry.npmjs.org", "registry.yarnpkg.com"],
  pypi: ["pypi.org", "files.pythonhosted.org"],
  debian: ["deb.debian.org", "security.debian.org"],
  crates: ["crates.io", "index.crates.io", "static.crates.io"],
  go: ["proxy.golang.org", "sum.golang.org", "storage.googleapis.com"],
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

/** Opens the network. */
export const everyHost = "*";

/**
 * Hosts of an allow-list: names, `name:port`, `*.name`, presets. `byOperator`: of the service's own settings.
 * @throws Error with a sentence
 */
export const parseHosts = (texts: readonly string[], byOperator = false): AllowedHost[] =>
  texts
    .filter((text) => text !== everyHost)
    .flatMap((text) => (Object.hasOwn(presets, text) ? (presets[text] ?? []) : [text]))
    .map((text) => parseHost(text, byOperator));

const parseHost = (text: string, byOperator: boolean): AllowedHost => {
  const [, wildcard = "", host = "", port] =
    /^(\*\.)?([a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i.exec(text) ?? [];
  const number = port === undefined ? null : Number(port);
  const isWrong = host === "" || (number !== null && (number < 1 || number > 65_535));
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

/** Whether the list allows a connection, and to an address of this host as well. */
export const judge = (
  hosts: readonly AllowedHost[],
  { name, port }: { name: string; port: number },
): "refused" | "allowed" | "local" => {
  const asked = name.toLowerCase();
  const fits = hosts.filter(
    (host) =>
      (host.port === null ? port === 443 || port === 80 : host.port === port) &&
      (host.name.startsWith("*.") ? asked.endsWith(host.name.slice(1)) : host.name === asked),
  );
  if (fits.length === 0) return "refused";
  return fits.some(({ local }) => local) ? "local" : "allowed";
};
