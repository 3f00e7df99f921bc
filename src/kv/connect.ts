import { readFileSync } from "node:fs";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { parseKvUrl, type KvAddress } from "../config/kv-url.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import { checkServer } from "./check-server.ts";
import type { Kv, KvClient } from "./kv.ts";
import { createStoreClock } from "./store-clock.ts";
import { adviceOn, isDisconnected, isRefusal, isWrongType, keyOfWrongType, reasonOf } from "./reason.ts";

type Request = {
  url: string;
  prefix: string;
  log: Log;
  signal?: AbortSignal;
  /** How long the first connection is tried for, ms. */
  patience?: number;
};

/** How long a command may take, and a connection to be made, ms: a store that is frozen must not freeze us. */
const commandTimeout = 3000;
const connectTimeout = 3000;

/** Longer than any command blocks, ms: a connection that is silent for so long is lost. */
const blockedTimeout = 15_000;

/** At the start of a whole stack the store may be a little later. */
const defaultPatience = 15_000;

/**
 * Connects to the store and checks that it can be relied on.
 * @throws Error with a sentence for the operator, without credentials
 */
export const connectKv = async ({
  url,
  prefix,
  log,
  signal,
  patience = defaultPatience,
}: Request): Promise<Kv> => {
  const address = parseKvUrl(url);
  if (typeof address === "string") throw new Error(`KV_URL ${address}`);
  const dedicatedOnes = new Set<KvClient>();
  const client = open(address, "commands", log);
  let backSince = performance.now();
  let trouble = "the connection was lost";
  client.on("ready", () => (backSince = performance.now()));
  client.on("error", (error: unknown) => (trouble = reasonOf(error)));

  const ask = async <Value>(work: (client: KvClient) => Promise<Value>): Promise<Value> => {
    try {
      return await work(client);
    } catch (cause) {
      if (cause instanceof ServiceError) throw cause;
      throw overwritten(prefix, cause) ?? unavailable(address, cause, trouble);
    }
  };

  const clock = createStoreClock({ client, key: `{${prefix}:j}:probe`, log });

  const close = async (): Promise<void> => {
    clock.stop();
    for (const one of [client, ...dedicatedOnes]) one.disconnect();
  };

  try {
    await ready(client, address, patience, signal);
    for (const warning of await checkServer(client, address)) log.warn(warning);
    await clock.set();
  } catch (error) {
    await close();
    throw error;
  }

  return {
    client,
    dedicated: () => {
      const one = open(address, "blocking", log);
      dedicatedOnes.add(one);
      one.once("end", () => dedicatedOnes.delete(one));
      return one;
    },
    prefix,
    jobKey: (...parts) => [`{${prefix}:j}`, ...parts].join(":"),
    key: (...parts) => [prefix, ...parts].join(":"),
    ask,
    check: async () => {
      await ask((one) => one.set(`{${prefix}:j}:probe`, "1", "EX", 60));
    },
    now: clock.now,
    backSince: () => backSince,
    close,
  };
};

type Purpose = "commands" | "blocking";

const open = (address: KvAddress, purpose: Purpose, log: Log): KvClient => {
  const client = make(address, purpose);
  let told = false;
  // Reconnecting is the client's own business; that it has to is said once each time, by one of the connections.
  client.on("error", (error: unknown) => {
    // Not the error itself: it carries the command that failed, which may hold the password.
    if (!told && purpose === "commands")
      log.warn({ why: reasonOf(error) }, `the key-value store at ${namesOf(address)} cannot be reached`);
    told = purpose === "commands";
  });
  client.on("ready", () => {
    if (told) log.info("the key-value store can be reached again");
    told = false;
  });
  return client;
};

const make = (address: KvAddress, purpose: Purpose): KvClient => {
  const options = optionsOf(address, purpose);
  const [first] = address.hosts;
  if (address.mode === "single" && first !== undefined)
    return new Redis({ ...options, ...first, db: address.database });
  if (address.mode === "sentinel") {
    return new Redis({
      ...options,
      sentinels: address.hosts,
      name: address.master ?? "",
      db: address.database,
      sentinelRetryStrategy: retry,
      ...(address.sentinelPassword === null ? {} : { sentinelPassword: address.sentinelPassword }),
      ...(address.tls
        ? { enableTLSForSentinelMode: true, ...(options.tls && { sentinelTLS: options.tls }) }
        : {}),
    });
  }
  return new Cluster(address.hosts, {
    redisOptions: options,
    clusterRetryStrategy: retry,
    enableOfflineQueue: purpose === "blocking",
    slotsRefreshTimeout: connectTimeout,
    slotsRefreshInterval: 5000,
    // An address behind TLS is one of a certificate: names are resolved by the connection, not before it.
    ...(address.tls && { dnsLookup: (name, callback) => callback(null, name) }),
  });
};

const optionsOf = (address: KvAddress, purpose: Purpose): Omit<RedisOptions, "replyMapping"> => ({
  ...(address.username === null ? {} : { username: address.username }),
  ...(address.password === null ? {} : { password: address.password }),
  ...(address.tls ? { tls: address.caFile === null ? {} : { ca: readFileSync(address.caFile) } } : {}),
  connectTimeout,
  keepAlive: 5000,
  retryStrategy: retry,
  // After a fail-over the old master takes no writes any more: the new one is looked up.
  reconnectOnError: (error) => (/^(READONLY|UNBLOCKED)/.test(error.message) ? 2 : false),
  ...(purpose === "commands"
    ? {
        commandTimeout,
        // One that does not answer is asked anew on a new connection; until that is ready, commands fail at once.
        socketTimeout: commandTimeout,
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        enableAutoPipelining: false,
      }
    : { maxRetriesPerRequest: null, socketTimeout: blockedTimeout }),
});

const retry = (times: number): number => Math.min(50 * times, 500);

const ready = async (
  client: KvClient,
  address: KvAddress,
  patience: number,
  signal?: AbortSignal,
): Promise<void> => {
  if (client.status === "ready") return;
  let last: unknown;
  const limit = AbortSignal.any([AbortSignal.timeout(patience), ...(signal ? [signal] : [])]);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const remember = (error: unknown): void => {
    last = error;
    if (isRefusal(reasonOf(error))) reject(new Error("refused"));
  };
  client.on("error", remember);
  client.once("ready", resolve);
  try {
    await orAborted(promise, limit);
  } catch {
    signal?.throwIfAborted();
    const why = reasonOf(last);
    throw new Error(
      `The key-value store at ${namesOf(address)} cannot be used (${why}); ${adviceOn(why, address.tls)}`,
    );
  } finally {
    client.off("error", remember);
  }
};

const namesOf = ({ hosts }: KvAddress): string => hosts.map(({ host, port }) => `${host}:${port}`).join(", ");

/** Of a command on a key that somebody has overwritten with another type of value; null: it is something else. */
const overwritten = (prefix: string, cause: unknown): ServiceError | null => {
  const said = reasonOf(cause);
  if (!isWrongType(said)) return null;
  const { args = [] } = (cause as { command?: { args: unknown[] } }).command ?? {};
  const isOurs = (text: string): boolean => text.startsWith(`${prefix}:`) || text.startsWith(`{${prefix}:`);
  const key = keyOfWrongType(said) ?? args.map(String).find(isOurs) ?? "of the service";
  return new ServiceError(
    "store_unavailable",
    `The key ${key} in the key-value store holds another type of value than the service writes: restore or delete it`,
    { cause, retryAfter: 5 },
  );
};

/** What every part of the store rejects with while it is away; `trouble`: what its connection said last. */
const unavailable = (address: KvAddress, cause: unknown, trouble: string): ServiceError => {
  const said = reasonOf(cause);
  const why = isDisconnected(said) ? trouble : said;
  return new ServiceError(
    "store_unavailable",
    `The key-value store at ${namesOf(address)} cannot be used at present (${why}); try again shortly`,
    { cause, retryAfter: 5 },
  );
};
