/** What went wrong with the store, in one line and without what was sent to it; of a Cluster what its last node said. */
export const reasonOf = (error: unknown): string => {
  if (error === undefined) return "no answer";
  const { lastNodeError } = error as { lastNodeError?: unknown };
  if (lastNodeError !== undefined) return reasonOf(lastNodeError);
  // Of a host with several addresses, one for each.
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join(", ");
  return error instanceof Error ? error.message.slice(0, 200) : "no reason given";
};

/** What the client says while it has no connection; why it has none says more. */
export const isDisconnected = (reason: string): boolean =>
  /isn't writeable|Connection is closed|max retries per request|None of startup nodes|Cluster isn't ready/i.test(
    reason,
  );

const refusals = /^(WRONGPASS|NOAUTH|NOPERM)/;

/** Waiting makes no credentials right. */
export const isRefusal = (reason: string): boolean => refusals.test(reason);

/** A key holds another type of value than the command is for. */
export const isWrongType = (reason: string): boolean => /\bWRONGTYPE\b/.test(reason);

/** Our scripts name the key, Redis does not. */
export const keyOfWrongType = (reason: string): string | undefined => /^WRONGTYPE of (\S+)/.exec(reason)?.[1];

/** What to do about a store that could not be used at the start. */
export const adviceOn = (reason: string, tls: boolean): string => {
  if (isRefusal(reason)) return "check the user and the password in KV_URL";
  if (tls) return "see that it speaks TLS there (rediss://), start it, or set KV_URL to where it is";
  return "start it, or set KV_URL to where it is";
};
