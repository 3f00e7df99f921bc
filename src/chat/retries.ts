import type { ChatRequest } from "./chat.ts";

type Kept<Turn> = {
  turn: Turn;
  requestId: string | null;
  identity: string;
  endedAt: number | null;
  size: number;
};

type Options<Turn> = {
  clock: () => number;
  /** The turn cannot be found any more. */
  onForgotten: (turn: Turn) => void;
};

/**
 * Finds the turn that a request retries: the same caller, user and body, and either the same X-Request-Id or a client
 * library that marks a retry. Failed turns are not found, so a retry begins anew.
 */
export const createRetryable = <Turn>({ clock, onForgotten }: Options<Turn>) => {
  const kept = new Set<Kept<Turn>>();

  const identityOf = (request: Pick<ChatRequest, "digest" | "user">, principal: string): string =>
    JSON.stringify([principal, request.user, request.digest]);

  const drop = (entry: Kept<Turn>): void => {
    if (kept.delete(entry)) onForgotten(entry.turn);
  };

  const forget = (): void => {
    const ended = [...kept].filter(({ endedAt }) => endedAt !== null);
    let size = 0;
    // Newest first: drops what is too old, too many or too large.
    for (const [index, entry] of ended.toReversed().entries()) {
      size += entry.size;
      const isOld = clock() - (entry.endedAt ?? 0) > keepMs;
      if (isOld || index >= maxEnded || size > maxSize) drop(entry);
    }
  };

  return {
    find: (request: Pick<ChatRequest, "digest" | "user" | "retry">, principal: string): Turn | null => {
      forget();
      const { requestId, isRetry } = request.retry;
      if (requestId === null && !isRetry) return null;
      const identity = identityOf(request, principal);
      const found = [...kept].findLast(
        (each) =>
          each.identity === identity &&
          (requestId === null || each.requestId === null ? isRetry : each.requestId === requestId),
      );
      return found?.turn ?? null;
    },
    /** Returns a function to call at the turn's end with the size of its answer in characters. */
    add: (turn: Turn, request: Pick<ChatRequest, "digest" | "user" | "retry">, principal: string) => {
      const entry: Kept<Turn> = {
        turn,
        requestId: request.retry.requestId,
        identity: identityOf(request, principal),
        endedAt: null,
        size: 0,
      };
      kept.add(entry);
      return (ok: boolean, answerSize: number): void => {
        entry.endedAt = clock();
        entry.size = answerSize;
        if (!ok) drop(entry);
        forget();
      };
    },
  };
};

/** Limits of what is stored for retries: milliseconds, number of answers, characters of all. */
const keepMs = 600_000;
const maxEnded = 50;
const maxSize = 64 * 1024 * 1024;
