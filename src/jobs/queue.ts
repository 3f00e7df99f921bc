/**
 * PORT. Ids of queued jobs, first in first out, shared by all instances; those bound to one instance wait in a line of
 * their own. The records are the truth: a queue can be rebuilt from them, and an id handed out in vain does no harm.
 */
export type Queue = {
  /** Adding an id that waits already, or is being worked on, changes nothing. Never rejects: what it could not add is added by a sweep. */
  add: (...entries: QueueEntry[]) => Promise<void>;
  /** Forgets a waiting id; one that is being worked on is not touched. Never rejects. */
  remove: (entry: QueueEntry) => Promise<void>;
  /**
   * Begins to hand out ids, at most as many at once as the adapter was made for. A worker that answers `later` could
   * not begin (something it needs is in use): the id is handed out again after a while. One that throws: likewise.
   */
  start: (work: (id: string) => Promise<"done" | "later">) => void;
  /** Hands out no more until `resume`; what is being worked on goes on. */
  pause: () => void;
  resume: () => void;
  /** Hands out no more; what is being worked on goes on. */
  stop: () => void;
  /** To be called when nothing is being worked on any more. */
  close: () => Promise<void>;
};

export type QueueEntry = {
  id: string;
  /** Instance that must run it; null: any. */
  boundTo: string | null;
};
