/**
 * PORT. Ids of queued jobs, first in first out, shared by all instances; ids bound to one instance wait in a queue of
 * their own. The records are the truth: a queue can be rebuilt from them, and an unnecessary delivery does no harm.
 */
export type Queue = {
  /** Adding an id that waits or is active changes nothing. Never rejects: the sweep adds what could not be added. */
  add: (...entries: QueueEntry[]) => Promise<void>;
  /** Removes a waiting id; an active one is not touched. Never rejects. */
  remove: (entry: QueueEntry) => Promise<void>;
  /** Begins to deliver ids, as many at once as the adapter was made for. An id answered `later` comes again. */
  start: (work: (id: string) => Promise<"done" | "later">) => void;
  /** Delivers nothing until `resume`; active ids continue. */
  pause: () => void;
  resume: () => void;
  /** Delivers nothing more; active ids continue. */
  stop: () => void;
  /** To be called once no id is active. */
  close: () => Promise<void>;
};

export type QueueEntry = {
  id: string;
  /** Instance that must run it; null: any. */
  boundTo: string | null;
};
