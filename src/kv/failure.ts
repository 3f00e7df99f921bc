import type { KvAddress } from "../config/kv-url.ts";
import { ServiceError } from "../contract/errors.ts";

/**
 * What a failure is about. `value`: one value is wrong, the others may be fine; `refused`: the store answers, but refuses a
 * command at present; `unreachable`: it does not answer.
 */
export type Failure = "value" | "refused" | "unreachable";

export const failureOf = (error: unknown): Failure => {
  if (error instanceof ServiceError && error.code === "store_unavailable") {
    const { cause } = error;
    // A file system that refuses may recover in a moment.
    if (!(cause instanceof Error)) return "unreachable";
    if (isWrongType(cause.message)) return "value";
    return cause.name === "ReplyError" ? "refused" : "unreachable";
  }
  return "value";
};

/** Why a command failed, in one line and without what was sent; for a Cluster the answer of its last node. */
export const reasonOf = (error: unknown): string => {
  if (error === undefined) return "no answer";
  const { lastNodeError } = error as { lastNodeError?: unknown };
  if (lastNodeError !== undefined) return reasonOf(lastNodeError);
  // A host with several addresses gives one error for each.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  return error instanceof Error ? error.message.slice(0, 200) : "no reason given";
};

/** Whether the store refuses the credentials: a retry does not help. */
export const isRefusal = (reason: string): boolean => /^(WRONGPASS|NOAUTH|NOPERM)/.test(reason);

const isWrongType = (reason: string): boolean => /\bWRONGTYPE\b/.test(reason);

/** What the client answers while it has no connection; why it has none says more. */
const disconnected =
  /isn't writeable|Connection is closed|max retries per request|None of startup nodes|Cluster isn't ready/i;

export const namesOf = ({ hosts }: KvAddress): string =>
  hosts.map(({ host, port }) => `${host}:${port}`).join(", ");

/** The error of a store that could not be used at the start. */
export const connectFailure = (address: KvAddress, cause: unknown): Error => {
  const reason = reasonOf(cause);
  const start = "start it, or set KV_URL (and KV_OPTIONS_FILE) to where it is";
  const advice = address.tls ? `check that it accepts TLS there (rediss://), ${start}` : start;
  return new Error(
    `The key-value store at ${namesOf(address)} cannot be used (${reason}); ${isRefusal(reason) ? "check the user and the password in KV_URL" : advice}`,
  );
};

type CommandFailure = { prefix: string; address: KvAddress; cause: unknown; connectionError: string };

/** The error of a command. `connectionError`: why the connection was lost last. */
export const commandFailure = (failure: CommandFailure): ServiceError => {
  const { prefix, address, cause, connectionError } = failure;
  const reason = reasonOf(cause);
  const message = isWrongType(reason)
    ? `The key ${wrongKey(prefix, cause)} in the key-value store holds another type of value than the service writes: restore or delete it`
    : `The key-value store at ${namesOf(address)} cannot be used at present (${disconnected.test(reason) ? connectionError : reason}); try again shortly`;
  return new ServiceError("store_unavailable", message, { cause, retryAfter: 5 });
};

/** The key with another type of value: our scripts name it, Redis does not. */
const wrongKey = (prefix: string, cause: unknown): string => {
  const { args = [] } = (cause as { command?: { args: unknown[] } }).command ?? {};
  const isKey = (text: string): boolean => text.startsWith(`${prefix}:`) || text.startsWith(`{${prefix}:`);
  return /^WRONGTYPE of (\S+)/.exec(reasonOf(cause))?.[1] ?? args.map(String).find(isKey) ?? "of the service";
};
