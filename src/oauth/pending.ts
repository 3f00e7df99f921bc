import type { Reply } from "../http/route.ts";
import type { Asked } from "./authorization-request.ts";
import { isDigestOf, newSecret } from "./digest.ts";

type Pending = {
  asked: Asked;
  browser: string;
  attempts: number;
  expires_at: number;
  answer?: Promise<Reply>;
};

const lifetimeMs = 600_000;
/** After a double click browsers show the answer to the second request only. */
const repeatMs = 10_000;
const most = 1000;

/** Requests that wait for their user. Each has a value for one form, and is bound to the browser that has the page. */
export const createPending = (now: () => number) => {
  const all = new Map<string, Pending>();

  const forgetExpired = (): void =>
    all.forEach(({ expires_at }, id) => {
      if (expires_at <= now()) all.delete(id);
    });

  /** How many pages of each client are open. */
  const clients = (): Map<string, number> => {
    const counts = new Map<string, number>();
    for (const { asked } of all.values()) {
      const id = asked.client.client_id;
      counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return counts;
  };

  /** The oldest page of the client that has most: a flood ends its own pages. */
  const makeRoom = (): void => {
    const counts = clients();
    const highest = Math.max(...counts.values());
    for (const [id, { asked }] of all)
      if (counts.get(asked.client.client_id) === highest) return void all.delete(id);
  };

  return {
    /** @param browser digest of its cookie. @returns the value for the form */
    add: (asked: Asked, browser: string, attempts = 0): string => {
      forgetExpired();
      if (all.size >= most) makeRoom();
      const id = newSecret();
      all.set(id, { asked, browser, attempts, expires_at: now() + lifetimeMs });
      return id;
    },

    /**
     * Decides once: a form that is sent again has the same answer for `repeatMs`, whatever is in it. Null: there is no such
     * request, or it is another browser's.
     */
    answer: (
      id: string,
      cookie: string,
      decide: (pending: Pending) => Promise<Reply>,
    ): Promise<Reply> | null => {
      forgetExpired();
      const found = all.get(id);
      if (found === undefined || !isDigestOf(cookie, found.browser)) return null;
      if (found.answer === undefined) {
        found.expires_at = now() + repeatMs;
        found.answer = decide(found);
      }
      return found.answer;
    },

    clients,
  };
};

export type PendingRequests = ReturnType<typeof createPending>;
