import { until } from "../until.ts";
import { newWorktree, type Row, type Scene } from "./scene.ts";

export const worktreeRows = (scene: () => Scene): Row[] => [
  {
    operation: "prepare_worktree",
    outcome: "success",
    question: () => ({ input: { repo_url: scene().remote } }),
    varies: newWorktree,
  },
  {
    operation: "prepare_worktree",
    outcome: "invalid_request",
    question: () => ({ input: { repo_url: "x".repeat(3000) } }),
  },
  {
    operation: "prepare_worktree",
    outcome: "invalid_repo_url",
    question: () => ({ input: { repo_url: "ext::sh -c id" } }),
  },
  {
    operation: "prepare_worktree",
    outcome: "invalid_ref",
    question: () => ({ input: { repo_url: scene().remote, base_ref: "a..b" } }),
  },
  {
    operation: "prepare_worktree",
    outcome: "clone_failed",
    question: () => ({ input: { repo_url: `${scene().remote}/nothing-here` } }),
  },
  {
    operation: "prepare_worktree",
    outcome: "worktree_failed",
    question: () => ({ input: { repo_url: scene().remote, base_ref: "no-such-branch" } }),
    // The message names the branches, by age, and each worktree adds one.
    varies: ["error"],
  },
  {
    operation: "prepare_worktree",
    outcome: "repo_unavailable",
    question: () => ({ input: { repo_url: "http://127.0.0.1:9/acme/app" } }),
    varies: ["error"],
  },
  {
    operation: "prepare_worktree",
    outcome: "queue_full",
    service: () => scene().clogged,
    question: () => ({ input: { repo_url: scene().remote } }),
  },
  {
    operation: "prepare_worktree",
    outcome: "disk_full",
    service: () => scene().crowded,
    question: () => ({ input: { repo_url: scene().remote } }),
    varies: ["error"],
  },
  {
    operation: "prepare_worktree",
    outcome: "store_unavailable",
    question: async () => {
      await scene().loseStore();
      return { input: { repo_url: scene().remote } };
    },
    after: () => scene().findStore(),
  },
  {
    operation: "get_worktree",
    outcome: "success",
    question: async () => ({ input: { worktree_id: await scene().prepared() } }),
    varies: ["age_hours", "measured_at"],
  },
  {
    operation: "get_worktree",
    outcome: "worktree_not_found",
    question: () => ({ input: { worktree_id: "../../etc/passwd" } }),
  },
  {
    operation: "list_worktrees",
    outcome: "success",
    question: async () => {
      await scene().prepared();
      return { input: {} };
    },
    varies: ["age_hours", "measured_at"],
  },
  {
    operation: "list_worktrees",
    outcome: "invalid_request",
    question: () => ({ input: { cursor: "no cursor" } }),
  },
  {
    operation: "cleanup_worktrees",
    outcome: "success",
    question: async () => ({ input: { paths: `${await scene().prepared()},/etc`, dry_run: true } }),
  },
  { operation: "cleanup_worktrees", outcome: "invalid_request", question: () => ({ input: {} }) },
  {
    operation: "get_disk_usage",
    outcome: "success",
    question: async () => {
      const { client } = scene().roomy;
      await until(async () =>
        (await client.get_disk_usage()).repositories.every(({ unmeasured }) => unmeasured === 0),
      );
      return { input: {} };
    },
    varies: ["free_bytes"],
  },
  { operation: "clear_environments", outcome: "success", question: () => ({ input: { repo: "acme/*" } }) },
  {
    operation: "prepare_worktree",
    outcome: "draining",
    service: () => scene().draining,
    question: async () => {
      await scene().drain();
      return { input: { repo_url: scene().remote } };
    },
  },
];
