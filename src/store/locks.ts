/**
 * PORT. Locks across all instances. A lock expires with the lease of the instance that has it. Every function rejects with
 * `ServiceError("store_unavailable")`.
 */
export type Locks = {
  /** Null: the lock is taken. */
  take: (name: string) => Promise<Lock | null>;
  close: () => Promise<void>;
};

export type Lock = AsyncDisposable & {
  /** Never rejects: a lock that cannot be released expires. */
  release: () => Promise<void>;
  /** Aborted when the lock could not be renewed: another instance may have it now. */
  lost: AbortSignal;
};

/**
 * The locks of a worktree and of an agent session.
 *
 * - `worktree`: held by who runs git there for itself, measures or removes it, and while a job that is to run in it is
 *   claimed. From then on the job's record says that it is in use.
 * - `join`: held by a submission into it and by its removal, while they look and write.
 * - `session`: held while a job of it is claimed.
 */
export const lockOf = {
  worktree: (id: string): string => `worktree ${id}`,
  join: (id: string): string => `join ${id}`,
  session: (id: string): string => `session ${id}`,
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
      const release = async (): Promise<void> => {
        // A second release must not free the lock of the next holder.
        if (holders.get(name) === token) holders.delete(name);
      };
      return { release, lost: never, [Symbol.asyncDispose]: release };
    },
    close: async () => undefined,
  };
};
