import { Cluster, Redis, type RedisOptions } from "ioredis";
import { kvAddress, type KvAddress } from "../config/kv-url.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { poll } from "../lib/wait.ts";
import { commandFailure, connectFailure, isRefusal, namesOf, reasonOf } from "./failure.ts";
import { createScript, type Kv, type KvClient, type Restore } from "./kv.ts";

type Request = {
  /** `KV_URL`, and `KV_OPTIONS_FILE`. */
  url: string;
  optionsFile?: string | null;
  prefix: string;
  log: Log;
  signal?: AbortSignal;
  /** How long the first connection is tried, ms: when a whole stack starts, the store may be a little later. */
  patience?: number;
};

/** How long a command and a connection attempt may take, ms: a frozen store must not freeze this process. */
const commandTimeout = 3000;
const connectTimeout = 3000;

/** A connection that is silent for so long is lost, ms; no command blocks longer. */
const blockedTimeout = 15_000;

/**
 * Connects to the store and checks that it can be relied on.
 * @throws Error with a sentence for the operator, without credentials
 */
export const connectKv = async (request: Request): Promise<Kv> => {
  const { url, optionsFile = null, prefix, log, patience = 15_000 } = request;
  const { signal = new AbortController().signal } = request;
  const address = kvAddress(url, optionsFile);
  const dedicated = new Set<KvClient>();
  const client = open(address, "commands", log);
  const probe = `{${prefix}:j}:probe`;
  let backSince = performance.now();
  let connectionError = "the connection was lost";
  client.on("error", (error: unknown) => (connectionError = reasonOf(error)));

  const askNow = async <Value>(work: (client: KvClient) => Promise<Value>): Promise<Value> => {
    try {
      return await work(client);
    } catch (cause) {
      if (cause instanceof ServiceError) throw cause;
      throw commandFailure({ prefix, address, cause, connectionError });
    }
  };

  const restores: Restore[] = [];
  let lastServer = "";
  /** Null after the connection was lost: another server may answer next. */
  let restored: Promise<void> | null = null;
  /** Counts lost connections: a restore that began before the last one fails, and writes nothing to this server. */
  let epoch = 0;
  const restore = async (begun: number): Promise<void> => {
    backSince = performance.now();
    // A Cluster has many servers, each with a part of the keys.
    if (restores.length === 0 || client instanceof Cluster) return;
    const lost = new Error("Connection is closed.");
    const askHere: Kv["ask"] = (work) =>
      askNow((commands) => (begun === epoch ? work(commands) : Promise.reject(lost)));
    const server = String(await askHere((commands) => serverName(commands, [probe], [])));
    if (server !== lastServer) for (const each of restores) await each(askHere, server);
    await askHere(async () => (lastServer = server));
    backSince = performance.now();
  };
  const whenRestored = (begun = epoch): Promise<void> =>
    (restored ??= restore(begun).catch((error: unknown) => {
      if (begun === epoch) restored = null;
      throw error;
    }));
  const ask: Kv["ask"] = (work) => whenRestored().then(() => askNow(work));
  client.on("close", () => {
    restored = null;
    epoch += 1;
  });
  client.on("ready", () => void whenRestored().catch(() => undefined));

  const clock = createStoreClock(client, probe, log);

  const close = async (): Promise<void> => {
    clock.stop();
    for (const connection of [client, ...dedicated]) connection.disconnect();
  };

  try {
    await ready(client, { address, patience, signal });
    for (const warning of await checkServer(client, address)) log.warn(warning);
    await clock.set();
  } catch (error) {
    await close();
    throw error;
  }

  return {
    client,
    dedicated: () => {
      const connection = open(address, "blocking", log);
      dedicated.add(connection);
      connection.once("end", () => dedicated.delete(connection));
      return connection;
    },
    prefix,
    jobKey: (...parts) => [`{${prefix}:j}`, ...parts].join(":"),
    key: (...parts) => [prefix, ...parts].join(":"),
    ask,
    check: async () => void (await ask((commands) => commands.set(probe, "1", "EX", 60))),
    now: clock.now,
    backSince: () => backSince,
    onReplaced: (restore) => {
      restores.push(restore);
      restored = null;
    },
    close,
  };
};

type Purpose = "commands" | "blocking";

/** The client reconnects by itself; each loss of the store is logged once, by the connection for commands. */
const open = (address: KvAddress, purpose: Purpose, log: Log): KvClient => {
  const client = connectionTo(address, purpose);
  let isLogged = false;
  client.on("error", (error: unknown) => {
    // Only the reason: the error itself contains the command, which may hold the password.
    if (!isLogged && purpose === "commands")
      log.warn({ why: reasonOf(error) }, `the key-value store at ${namesOf(address)} cannot be reached`);
    isLogged = purpose === "commands";
  });
  client.on("ready", () => {
    if (isLogged) log.info("the key-value store can be reached again");
    isLogged = false;
  });
  return client;
};

const connectionTo = (address: KvAddress, purpose: Purpose): KvClient => {
  const { options: given, database: db, tls, hosts } = address;
  const { cluster, ...others } = given;
  const options = { ...others, ...optionsOf(address, purpose) };
  if (cluster === undefined)
    // With sentinels these come before the host.
    return new Redis({ ...options, ...hosts[0], db, sentinelRetryStrategy: retryDelay });
  const client = new Cluster(cluster, {
    redisOptions: options,
    clusterRetryStrategy: retryDelay,
    enableOfflineQueue: purpose === "blocking",
    slotsRefreshTimeout: connectTimeout,
    // A TLS certificate is for a name: the connection resolves it, not the client.
    ...(tls && { dnsLookup: (name, callback) => callback(null, name) }),
  });
  // The client's own timer survives a disconnect in the middle of a refresh, and the process cannot end.
  const refresh = setInterval(() => client.refreshSlotsCache(), 5000).unref();
  return client.once("end", () => clearInterval(refresh));
};

/** What KV_OPTIONS_FILE cannot change. */
const optionsOf = (
  { username, password, tls, options }: KvAddress,
  purpose: Purpose,
): Omit<RedisOptions, "replyMapping"> => ({
  ...(username !== undefined && { username }),
  ...(password !== undefined && { password }),
  ...(tls && { tls: options.tls ?? {} }),
  connectTimeout,
  keepAlive: 5000,
  retryStrategy: retryDelay,
  // After a fail-over the old master refuses writes: reconnecting finds the new one.
  reconnectOnError: (error) => (/^(READONLY|UNBLOCKED)/.test(error.message) ? 2 : false),
  ...(purpose === "commands"
    ? {
        commandTimeout,
        // A connection without an answer is replaced; until the new one is ready, commands fail at once.
        socketTimeout: commandTimeout,
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        enableAutoPipelining: false,
      }
    : { maxRetriesPerRequest: null, socketTimeout: blockedTimeout }),
});

const retryDelay = (times: number): number => Math.min(50 * times, 500);

type Wait = { address: KvAddress; patience: number; signal: AbortSignal };

/** Waits for the first connection; refused credentials end the wait. */
const ready = async (client: KvClient, { address, patience, signal }: Wait): Promise<void> => {
  let last: unknown;
  const onError = (error: unknown): void => void (last = error);
  client.on("error", onError);
  const isOver = (): true | null => client.status === "ready" || isRefusal(reasonOf(last)) || null;
  await poll(isOver, { first: 5, longest: 100, signal, deadline: performance.now() + patience });
  client.off("error", onError);
  if (client.status !== "ready") throw connectFailure(address, last);
};

/** Another one after each start of the server and each promotion. */
const serverName = createScript(`
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
return string.match(info, 'run_id:(%w+)') .. '-' .. string.match(info, 'master_replid:(%w+)')`);

/** Streams, `LMOVE` and the queue's scripts need this version. */
const oldestVersion = 6.2;

/**
 * Checks that the store does not lose jobs: one that may evict keys when its memory is full would. Resolves to warnings for
 * the operator, a sentence each.
 * @throws Error with a sentence for the operator
 */
const checkServer = async (client: KvClient, { database }: KvAddress): Promise<string[]> => {
  const warnings = new Set<string>();
  // The client falls back to database 0 when there is no such database, and that may be in use by others.
  if (client instanceof Redis)
    await client.select(database).catch((cause: unknown) => {
      throw new Error(
        `The key-value store has no database ${database} (${reasonOf(cause)}); set another one in KV_URL`,
      );
    });
  for (const node of client instanceof Cluster ? client.nodes("master") : [client]) {
    const info = await node.info();
    const valueOf = (name: string): string => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1] ?? "";
    const version = valueOf("redis_version");
    if (Number.parseFloat(version) < oldestVersion)
      throw new Error(`The key-value store is Redis ${version}; at least ${oldestVersion} is needed`);
    const policy = valueOf("maxmemory_policy") || "noeviction";
    if (policy !== "noeviction")
      throw new Error(
        `The key-value store has maxmemory-policy ${policy}, which may evict jobs; set maxmemory-policy noeviction`,
      );
    if (client instanceof Redis && valueOf("cluster_enabled") === "1")
      throw new Error(
        "The key-value store is a node of a Cluster; name its nodes as cluster in KV_OPTIONS_FILE",
      );
    if (valueOf("aof_enabled") === "0")
      warnings.add(
        "the key-value store keeps no append-only file: jobs are lost when it restarts; set appendonly yes and appendfsync always",
      );
  }
  return [...warnings];
};

/** How often the store's time is read, and by how much this machine's clock may differ without a warning, ms. */
const clockInterval = 10_000;
const tolerableDrift = 5000;

/**
 * The store's time, which all instances use: one with a wrong clock would expire the jobs of all. Between two readings a
 * monotonic clock continues it. `key` selects the node of a Cluster.
 */
const createStoreClock = (client: KvClient, key: string, log: Log) => {
  /** The store's time minus `performance.now()`, ms. */
  let offset = Date.now() - performance.now();
  let isLogged = false;

  const set = async (): Promise<void> => {
    const start = performance.now();
    const answer = (await client.eval("return redis.call('TIME')", 1, key)) as [string, string];
    const time = Number(answer[0]) * 1000 + Number(answer[1]) / 1000;
    // The store read its clock between the request and the answer.
    offset = Math.min(Math.max(offset, time - performance.now()), time - start);
    const drift = Date.now() - performance.now() - offset;
    const isWrong = Math.abs(drift) > tolerableDrift;
    const said =
      "the clock of this machine differs from the key-value store's, whose time is used; set it right";
    if (isWrong && !isLogged) log.warn({ seconds: Math.round(drift / 1000) }, said);
    isLogged = isWrong;
  };

  const timer = setInterval(() => void set().catch(() => undefined), clockInterval).unref();
  return { set, now: () => new Date(performance.now() + offset), stop: () => clearInterval(timer) };
};
