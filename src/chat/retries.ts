import type { ChatRequest } from "./chat.ts";

type Retried = Pick<ChatRequest, "digest" | "user" | "retry">;

type Kept<Turn> = {
  turn: Turn;
  requestId: string | null;
  identity: string;
  /** Null: under way. */
  endedAt: number | null;
};

/**
 * Finds the turn that a request retries: the same caller, user and body, and either the same X-Request-Id or a client
 * library that marks a retry. Failed turns are not found, so a retry begins anew.
 */
export const createRetryable = <Turn extends { size: () => number }>(clock: () => number) => {
  /** Newest first. */
  let kept: Kept<Turn>[] = [];

  /** Drops what is too old, too many or too large. */
  const forget = (): void => {
    let [count, size] = [0, 0];
    kept = kept.filter(({ turn, endedAt }) => {
      if (endedAt === null) return true;
      count += 1;
      size += turn.size();
      return clock() - endedAt <= keepMs && count <= maxEnded && size <= maxSize;
    });
  };

  return {
    find: (request: Retried, principal: string): Turn | null => {
      forget();
      const { requestId, isRetry } = request.retry;
      if (requestId === null && !isRetry) return null;
      const identity = identityOf(request, principal);
      const found = kept.find(
        (each) =>
          each.identity === identity &&
          (requestId === null || each.requestId === null ? isRetry : each.requestId === requestId),
      );
      return found?.turn ?? null;
    },
    /** Returns a function to call at the turn's end. */
    add: (turn: Turn, request: Retried, principal: string): ((ok: boolean) => void) => {
      const { requestId } = request.retry;
      const entry: Kept<Turn> = { turn, requestId, identity: identityOf(request, principal), endedAt: null };
      kept.unshift(entry);
      return (ok) => {
        entry.endedAt = ok ? clock() : Number.NEGATIVE_INFINITY;
        forget();
      };
    },
  };
};

const identityOf = (request: Retried, principal: string): string =>
  JSON.stringify([principal, request.user, request.digest]);

/** Limits of what is kept for retries: milliseconds, number of answers, characters of all. */
const keepMs = 600_000;
const maxEnded = 50;
const maxSize = 64 * 1024 * 1024;
