import { readFileSync } from "node:fs";
import { z } from "zod";

type Host = { host: string; port: number };

/** How the key-value store is reached: KV_URL, and what KV_OPTIONS_FILE adds. */
export type KvAddress = {
  /** The store; its sentinels, or nodes of its Cluster. */
  hosts: Host[];
  tls: boolean;
  username: string | undefined;
  password: string | undefined;
  /** Number of the database; 0 in a Cluster. */
  database: number;
  options: KvOptions;
};

const Hosts = z.array(z.object({ host: z.string().min(1), port: z.int().min(1).max(65_535) })).min(1);

/** Options of ioredis, for one server, Sentinel, or each node of a Cluster. */
const KvOptions = z
  .looseObject({
    /** Nodes of the Cluster. */
    cluster: Hosts.optional(),
    sentinels: Hosts.optional(),
    /** The master's name at the sentinels. */
    name: z.string().optional(),
    sentinelPassword: z.string().optional(),
    password: z.string().optional(),
    tls: z.looseObject({}).optional(),
  })
  .refine(({ sentinels, name }) => (sentinels === undefined) === (name === undefined), {
    error: "sentinels and the name of their master go together",
  });
type KvOptions = z.infer<typeof KvOptions>;

/**
 * Parses `redis[s]://[user:password@]host[:port][/database]`.
 * @returns the address, or a text that completes "KV_URL …" and does not repeat credentials
 */
export const parseKvUrl = (text: string): KvAddress | string => {
  const url = URL.parse(text);
  const database = /^\/?(\d{0,5})$/.exec(url?.pathname ?? "")?.[1];
  if (url === null || !/^(redis|valkey)s?:$/.test(url.protocol) || url.hostname === "" || url.port === "0")
    return "must be redis://[user:password@]host[:port][/database], or rediss:// for TLS";
  if (database === undefined || url.search !== "")
    return "must end with the number of the database, if with anything; other options belong in KV_OPTIONS_FILE";
  try {
    const [username, password] = [url.username, url.password].map(
      (part) => decodeURIComponent(part) || undefined,
    );
    const hosts = [{ host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 6379) }];
    return {
      hosts,
      tls: /(rediss|valkeys):/.test(url.protocol),
      username,
      password,
      database: Number(database),
      options: {},
    };
  } catch {
    return "has credentials that cannot be read; write special characters percent-encoded";
  }
};

/** @returns what the file holds, or a text that completes "KV_OPTIONS_FILE …" */
export const readKvOptions = (file: string): KvOptions | string => {
  try {
    return KvOptions.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    if (error instanceof z.ZodError)
      return `is wrong: ${error.issues.map(({ path, message }) => [...path, message].join(" ")).join("; ")}`;
    // The message of a syntax error may repeat a part of the file.
    return `must be a readable file with JSON (${error instanceof SyntaxError ? "it is no JSON" : String(error)})`;
  }
};

/** @throws Error with a sentence for the operator */
export const kvAddress = (url: string, file: string | null): KvAddress => {
  const [address, options] = [parseKvUrl(url), file === null ? {} : readKvOptions(file)];
  if (typeof address === "string") throw new Error(`KV_URL ${address}`);
  if (typeof options === "string") throw new Error(`KV_OPTIONS_FILE ${options}`);
  return { ...address, hosts: options.cluster ?? options.sentinels ?? address.hosts, options };
};
