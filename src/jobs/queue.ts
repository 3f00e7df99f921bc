/** PORT. Ids of queued jobs, first in first out. The records are the truth: a queue can be rebuilt from them. */
export type Queue = {
  add: (id: string) => void;
  /** Forgets a waiting id; one that is being worked on is not touched. */
  remove: (id: string) => void;
  /**
   * Begins to hand out ids, at most as many at once as the adapter was made for. A worker that answers `later` could
   * not begin (something it needs is in use): the id keeps its place and is handed out again when another has ended.
   */
  start: (work: (id: string) => Promise<"done" | "later">) => void;
  /** Hands out no more; what is being worked on goes on. */
  stop: () => void;
};
