import type { ChatRequest } from "./chat.ts";

type Kept<Turn> = { turn: Turn; requestId: string | null; identity: string; endedAt: number | null };

type Options<Turn> = {
  clock: () => number;
  /** The turn cannot be found any more. */
  onForgotten: (turn: Turn) => void;
};

/**
 * Finds the turn that a request is a retry of: the same caller, user and body, and either the same X-Request-Id or a client
 * library that says so. Turns that failed are not found: asked again, they are begun again.
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
    for (const [index, entry] of ended.entries()) {
      const isOld = clock() - (entry.endedAt ?? 0) > keepMs;
      if (isOld || ended.length - index > maxEnded) drop(entry);
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
    /** Returns what is to be told the end of the turn. */
    add: (turn: Turn, request: Pick<ChatRequest, "digest" | "user" | "retry">, principal: string) => {
      const entry: Kept<Turn> = {
        turn,
        requestId: request.retry.requestId,
        identity: identityOf(request, principal),
        endedAt: null,
      };
      kept.add(entry);
      return (ok: boolean): void => {
        entry.endedAt = clock();
        if (!ok) drop(entry);
        forget();
      };
    },
  };
};

/** How long, in milliseconds, and how many answers are kept for those who ask again. */
const keepMs = 600_000;
const maxEnded = 50;
