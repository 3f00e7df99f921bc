/**
 * PORT. What only one job at a time may use, across all instances. A lock ends with the lease of the instance that holds
 * it. Rejects with `ServiceError("store_unavailable")`.
 */
export type Locks = {
  /** Null: somebody holds it. */
  take: (name: string) => Promise<Lock | null>;
  close: () => Promise<void>;
};

export type Lock = {
  /** Never rejects: a lock that cannot be given back lapses. */
  release: () => Promise<void>;
  /** Aborted when it could not be kept: somebody else may hold it now. */
  lost: AbortSignal;
};
