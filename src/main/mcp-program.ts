import { operations } from "../contract/operations.ts";
import type { McpProgram } from "../mcp/server.ts";
import { serviceName, version } from "./version.ts";

/** `svc` as MCP clients see it. */
export const mcpProgram = (parts: { agent: boolean }): McpProgram => ({
  service: { name: serviceName, title: "Coding-agent jobs", version },
  instructions,
  operations,
  parts,
});

const instructions = `Runs a coding agent on a git repository as a background job and hands back a branch or a pull request.

A task: run_task answers at once with a job of status queued. Ask wait_for_job (at most 50 seconds a call; call it again while the status is queued or running; it returns at once when the job asks a person) or get_job until the job has ended: succeeded, failed, cancelled or expired. output is the agent's final text; branch, commit_sha and pr_url say where its work is; a job that failed says why in failure_reason and error, and retryable tells whether the same task may succeed later. A running job whose waiting is of the kind question or plan waits for a person: put its questions, or its plan, to your user and send what they say with answer_job; then wait again. One of the kind limit goes on by itself. message_job tells the agent of a running job something more, without a stop. cancel_job ends a job; what it had done is kept under salvage_ref.

In two phases, to have the repository ready or to run several tasks in one place: prepare_worktree, then run_task with its worktree_id; while a worktree's status is preparing, ask get_worktree until it is ready. list_worktrees and get_disk_usage show what is there, cleanup_worktrees removes it: try it with dry_run first.

list_profiles lists the profiles that a task can run with; without one the service chooses.

Every result is JSON with success. A failure has error, a sentence that says what to do, and code, which is stable.`;
