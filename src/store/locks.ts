/**
 * PORT. Locks across all instances. A lock expires with the lease of the instance that has it. Every function rejects with
 * `ServiceError("store_unavailable")`.
 */
export type Locks = {
  /** Null: the lock is taken. */
  take: (name: string) => Promise<Lock | null>;
  close: () => Promise<void>;
};

export type Lock = {
  /** Never rejects: a lock that cannot be released expires. */
  release: () => Promise<void>;
  /** Aborted when the lock could not be renewed: another instance may have it now. */
  lost: AbortSignal;
};

/** Locks within this process. */
export const createLocalLocks = (): Locks => {
  const holders = new Map<string, symbol>();
  const never = new AbortController().signal;

  return {
    take: async (name) => {
      if (holders.has(name)) return null;
      const token = Symbol(name);
      holders.set(name, token);
      return {
        release: async () => {
          // A second release must not free the lock of the next holder.
          if (holders.get(name) === token) holders.delete(name);
        },
        lost: never,
      };
    },
    close: async () => undefined,
  };
};
