import type { PullRequest } from "./repos.ts";

/** PORT. A server that knows pull requests and can make repositories. */
export type GitHost = {
  /** @throws RepoError `pr_failed` */
  openPullRequest: (request: PullRequest) => Promise<{ url: string | null; reason: string | null }>;
  /**
   * Makes the repository of this URL, which is known to be missing. Resolves to a sentence about it.
   * @throws RepoError `clone_failed`
   */
  createRepository: (request: { url: string; private: boolean; signal: AbortSignal }) => Promise<string>;
};
