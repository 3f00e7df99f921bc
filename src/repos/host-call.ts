import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { GitError } from "../lib/git.ts";

/** A request to a git host's API has failed; `status` 0: without an answer. `message` is bounded and free of credentials. */
export class HostError extends Error {
  override name = "HostError";
  readonly status: number;
  readonly response: { headers: Record<string, string> };

  constructor(message: string, status: number, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.response = { headers };
  }
}

/** Also the shape of errors of `@octokit/request`. */
const Refusal = z.object({
  status: z.number(),
  message: z.string(),
  response: z.object({ headers: z.record(z.string(), z.unknown()) }).optional(),
});
type Refusal = z.infer<typeof Refusal>;

/** What a host has answered; null: the error is of another kind. */
export const refusalOf = (error: unknown): Refusal | null => Refusal.safeParse(error).data ?? null;

/** When a rate limit that the host names ends, ms since the epoch, and in an hour at most; 0: it names none. */
export const limitOf = (error: unknown): number => {
  const refusal = refusalOf(error);
  if (refusal === null || ![403, 429, 503].includes(refusal.status)) return 0;
  const headers = refusal.response?.headers ?? {};
  const said = headers["retry-after"];
  const after = Number(said) || (Date.parse(String(said)) - Date.now()) / 1000;
  const isSpent = String(headers["x-ratelimit-remaining"]) === "0";
  const reset = isSpent ? Number(headers["x-ratelimit-reset"]) * 1000 : 0;
  const at = after > 0 ? Date.now() + after * 1000 : reset;
  if (at > 0) return Math.min(at, Date.now() + 3_600_000);
  // GitHub asks for a minute at least.
  return /secondary rate limit/i.test(refusal.message) ? Date.now() + 61_000 : 0;
};

/** Words of git and gh when a server cannot be reached, breaks off or is overloaded. */
export const unreachable =
  /Could not resolve host|Failed to connect|Connection (refused|reset|timed out)|Network is unreachable|No route to host|Operation timed out|gnutls_handshake|SSL (connection|certificate|peer)|returned error: (5\d\d|429)|early EOF|unexpected disconnect|the remote end hung up|\bEOF\b|connection re(set|fused)|no such host|i\/o timeout|TLS handshake timeout|GnuTLS recv error|non-properly terminated|Empty reply from server|SSL_ERROR_SYSCALL|Connection closed by|error connecting to|GOAWAY|INTERNAL_ERROR|closed network connection|\(Internal Server Error\)/;

/** Words of git when the branch at a remote moved while it was pushed. */
export const overtaken =
  /\[rejected\].*\((non-fast-forward|fetch first)|\(stale info|cannot lock ref '[^']*': (is at|reference already)|incorrect old value/;

/** Words of git and servers that stay the same however often they are asked. */
const lasting =
  /returned error: 4(?!29)\d\d|SSL certificate|Authentication failed|rejected\] \((?!Internal Server Error)/;

/** GitHub does not know at once a branch that was pushed, or lists a pull request that was opened, a moment ago. */
const isEarly = (text: string): boolean =>
  /No commits between|already exists for|Head ref must be|Head sha can't be blank|field: head/.test(text) &&
  !/Base (ref|sha)|field: base/.test(text);

/**
 * Whether the fault of a host may pass.
 *
 * | the host                                                   | may pass |
 * |------------------------------------------------------------|----------|
 * | answers 5xx or 429, or 403 with the end of a rate limit    | yes      |
 * | answers 422 because it does not know the pushed branch yet | yes      |
 * | cannot be reached, or breaks off, also within its JSON     | yes      |
 * | answers anything else                                      | no       |
 */
export const mayPass = (error: unknown): boolean => {
  const refusal = refusalOf(error);
  if (refusal?.status === 422) return isEarly(refusal.message);
  if (refusal?.status === 0) return unreachable.test(refusal.message);
  if (refusal !== null) return refusal.status >= 500 || refusal.status === 429 || limitOf(error) > 0;
  if (error instanceof GitError)
    return error.ended === "exited" && unreachable.test(error.said) && !lasting.test(error.said);
  if (error instanceof SyntaxError) return true;
  return error instanceof Error && error.cause !== undefined && mayPass(error.cause);
};

/** Seconds before the second and the third try. */
const pauses = [0.5, 2];

/** Seconds that a caller of the service is kept waiting for a rate limit. */
const longestWait = 60;

/**
 * Calls a host up to three times while its fault may pass. What makes a thing looks first whether an earlier try has made it.
 * A limit that ends in more than a minute is not waited for. @throws the last error
 */
export const callHost = async <Value>(signal: AbortSignal, call: () => Promise<Value>): Promise<Value> => {
  for (let tries = 0; ; tries++) {
    try {
      return await call();
    } catch (error) {
      const [usual = Infinity] = pauses.slice(tries);
      const seconds = Math.max(usual, (limitOf(error) - Date.now()) / 1000);
      if (signal.aborted || !mayPass(error) || !(seconds <= longestWait)) throw error;
      await delay(seconds * 1000, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }
};
