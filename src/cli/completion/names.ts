import { connect } from "../connect.ts";
import type { Suggestion } from "./complete.ts";

/** Longest wait for the service, in milliseconds: who pressed Tab does not wait longer. */
const longestMs = 1000;

/** What the running service knows of this kind, newest first; empty where it cannot be asked. */
export const namesOf = async (
  kind: "jobs" | "profiles" | "worktrees",
  command: string,
): Promise<Suggestion[]> => {
  try {
    const { client } = connect();
    const found = await ask[kind](client, { signal: AbortSignal.timeout(longestMs) }, command);
    // A shell would have to quote others, and not each does.
    return found.filter(([word]) => /^\w[\w.@/+-]*$/.test(word));
  } catch {
    return [];
  }
};

type Client = ReturnType<typeof connect>["client"];
type Ask = (client: Client, options: { signal: AbortSignal }, command: string) => Promise<Suggestion[]>;

const ask: Record<Parameters<typeof namesOf>[0], Ask> = {
  jobs: async (client, options, command) => {
    const status = ["cancel", "wait"].includes(command) ? "active" : "all";
    const { jobs } = await client.list_jobs({ limit: 50, status }, options);
    const newest = jobs.length === 0 ? [] : [["latest", "the newest job"] as const];
    return [...newest, ...jobs.map((job) => [job.id.slice(0, 8), `${job.status}: ${job.task}`] as const)];
  },
  profiles: async (client, options) => {
    const { profiles } = await client.list_profiles({}, options);
    return profiles.map(({ name, description }) => [name, description]);
  },
  worktrees: async (client, options) => {
    const { worktrees } = await client.list_worktrees({}, options);
    return worktrees.map((each) => [
      each.worktree_id.slice(0, 8),
      `${each.status}: ${each.repo_url}, ${each.branch}`,
    ]);
  },
};
