/** The address of the key-value store, parsed from `KV_URL`; no field has a default of its own. */
export type KvAddress = {
  mode: "single" | "sentinel" | "cluster";
  /** The store; for Sentinel the sentinels, for a Cluster some of its nodes. */
  hosts: { host: string; port: number }[];
  tls: boolean;
  username: string | null;
  password: string | null;
  /** Number of the database; 0 in a Cluster. */
  database: number;
  /** The master's name at the sentinels; null unless `sentinel`. */
  master: string | null;
  /** Password of the sentinels themselves. */
  sentinelPassword: string | null;
  /** PEM file of the authority that signed the store's certificate; null: those of Node. */
  caFile: string | null;
};

const schemes = /^(redis|rediss|valkey|valkeys)(?:\+(sentinel|cluster))?:$/;

const parameters = ["sentinel_password", "ca_file"];

/**
 * Parses `redis[s]://[user:password@]host[:port][/database]`,
 * `redis[s]+sentinel://…@host:port,host:port/master[/database]` and `redis[s]+cluster://…@host:port,host:port`, each
 * with `?ca_file=` and the second with `?sentinel_password=`.
 * @returns the address, or a text that completes "KV_URL …"
 */
export const parseKvUrl = (text: string): KvAddress | string => {
  const parts = partsOf(text);
  if (parts === null)
    return "must begin with redis:// or rediss://, or redis+sentinel:// or redis+cluster:// (rediss+… with TLS)";
  const { mode, tls } = parts;
  const hosts = hostsOf(mode, parts.list);
  if (typeof hosts === "string") return hosts;
  const options = optionsOf(parts.query);
  if (typeof options === "string") return options;
  const place = placeOf(mode, parts.path);
  if (typeof place === "string") return place;
  const login = loginOf(parts.credentials);
  if (login === null) return "has credentials that cannot be read; write special characters percent-encoded";
  return { mode, hosts, tls, ...login, ...place, ...options };
};

const partsOf = (text: string) => {
  const parts = /^([a-z+]+:)\/\/(?:([^@/?#]*)@)?([^/?#]*)(\/[^?#]*)?(?:\?([^#]*))?$/i.exec(text);
  const scheme = schemes.exec(parts?.[1]?.toLowerCase() ?? "");
  if (parts === null || scheme === null) return null;
  const [, , credentials = "", list = "", path = "", query = ""] = parts;
  const mode: KvAddress["mode"] =
    scheme[2] === "sentinel" ? "sentinel" : scheme[2] === "cluster" ? "cluster" : "single";
  return { mode, tls: /^(rediss|valkeys)$/.test(scheme[1] ?? ""), credentials, list, path, query };
};

const hostsOf = (mode: KvAddress["mode"], list: string): KvAddress["hosts"] | string => {
  const hosts = list.split(",").map((one) => hostOf(one, mode === "sentinel" ? 26_379 : 6379));
  if (list.includes("@")) return "has an @ too many; write @ in a password as %40";
  const named = hosts.filter((host) => host !== null);
  if (named.length < hosts.length) return "must name each host as host or host:port, separated by commas";
  if (mode === "single" && hosts.length > 1)
    return "names several hosts: use redis+sentinel:// or redis+cluster:// for that";
  return named;
};

const optionsOf = (query: string): Pick<KvAddress, "sentinelPassword" | "caFile"> | string => {
  const options = new URLSearchParams(query);
  const unknown = [...options.keys()].find((key) => !parameters.includes(key));
  if (unknown !== undefined)
    return `has the unknown parameter ${unknown}; there are ${parameters.join(", ")}`;
  return { sentinelPassword: options.get("sentinel_password"), caFile: options.get("ca_file") };
};

const hostOf = (text: string, defaultPort: number): { host: string; port: number } | null => {
  const match = /^(\[[0-9a-f:.]+\]|[^:[\]\s@]+)(?::(\d{1,5}))?$/i.exec(text);
  const port = Number(match?.[2] ?? defaultPort);
  if (match === null || port < 1 || port > 65_535) return null;
  return { host: (match[1] ?? "").replace(/^\[|\]$/g, ""), port };
};

const placeOf = (
  mode: KvAddress["mode"],
  text: string,
): { master: string | null; database: number } | string => {
  const path = text.split("/").filter((part) => part !== "");
  const master = mode === "sentinel" ? (path.shift() ?? "") : null;
  if (master === "")
    return "must name the master after the sentinels, as in redis+sentinel://host:26379/mymaster";
  const [database = "0", ...rest] = path;
  if (rest.length > 0 || !/^\d{1,5}$/.test(database))
    return "must end with the number of the database, if with any path";
  if (mode === "cluster" && database !== "0") return "names a database, but a cluster has only number 0";
  return { master, database: Number(database) };
};

const loginOf = (credentials: string): { username: string | null; password: string | null } | null => {
  const colon = credentials.indexOf(":");
  const [user, password] =
    colon === -1 ? [credentials, ""] : [credentials.slice(0, colon), credentials.slice(colon + 1)];
  try {
    return {
      username: user === "" ? null : decodeURIComponent(user),
      password: password === "" ? null : decodeURIComponent(password),
    };
  } catch {
    return null;
  }
};
