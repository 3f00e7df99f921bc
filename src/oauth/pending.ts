import type { Asked } from "./authorization-request.ts";
import { isDigestOf, newSecret } from "./digest.ts";

type Pending = { asked: Asked; browser: string; attempts: number; expires_at: number };

const lifetimeMs = 600_000;
const most = 1000;

/** Requests that wait for their user. Each has a value for one form, and is bound to the browser that has the page. */
export const createPending = (now: () => number) => {
  const all = new Map<string, Pending>();

  const forgetExpired = (): void =>
    all.forEach(({ expires_at }, id) => {
      if (expires_at <= now()) all.delete(id);
    });

  return {
    /** @param browser digest of its cookie. @returns the value for the form */
    add: (asked: Asked, browser: string, attempts = 0): string => {
      forgetExpired();
      const [oldest] = all.keys();
      if (all.size >= most && oldest !== undefined) all.delete(oldest);
      const id = newSecret();
      all.set(id, { asked, browser, attempts, expires_at: now() + lifetimeMs });
      return id;
    },

    /** Takes the request away: a value serves once. Null: there is none, or it is another browser's. */
    take: (id: string, cookie: string): Pending | null => {
      forgetExpired();
      const found = all.get(id);
      if (found === undefined || !isDigestOf(cookie, found.browser)) return null;
      all.delete(id);
      return found;
    },

    isPending: (clientId: string): boolean =>
      [...all.values()].some(({ asked }) => asked.client.client_id === clientId),
  };
};

export type PendingRequests = ReturnType<typeof createPending>;
