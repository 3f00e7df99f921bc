import { dirname } from "node:path";
import type { Agent, AgentLaunch, AgentOutcome } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Run } from "../jobs/execute.ts";
import type { Profiles } from "../profiles/profile.ts";
import type { Worktree } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";

type Turn = {
  record: JobRecord;
  run: Run;
  worktree: Worktree;
  launch: AgentLaunch;
  agent: Agent;
  profiles: Profiles;
  newId: () => string;
};

/** Thrown in `onSpawn` when the job is no longer this run's: the agent is ended before it has done anything. */
export class NoLongerOurs extends Error {
  override name = "NoLongerOurs";
}

/** Runs the agent in the worktree and passes its events on. */
export const runTurn = async ({
  record,
  run,
  worktree,
  launch,
  agent,
  profiles,
  newId,
}: Turn): Promise<AgentOutcome> => {
  const session = await chooseSession(record, profiles, newId);
  // Left early it ends the agent, and waits until nothing of it is left.
  await using events = agent.run({
    jobId: record.id,
    attempt: record.attempt,
    prompt: promptOf(record, session.resumeFrom !== null),
    cwd: worktree.path,
    cacheDirectory: cacheDirectoryOf(worktree),
    launch,
    session,
    signal: run.signal,
    onSpawn: async (identity) => {
      const ours = await run.record({
        pid: identity.pid,
        process: identity,
        session_id: session.id,
        job_config_dir: launch.configDir,
        worktree_id: worktree.worktreeId,
        worktree_path: worktree.path,
        branch: worktree.branch,
        ...(launch.model === null ? {} : { model: launch.model }),
      });
      if (!ours) throw new NoLongerOurs("the job was taken away from this run");
      run.stage("agent_started", `pid ${identity.pid}`);
    },
  });
  let spoke = false;
  let result: Extract<AgentEvent, { type: "result" }> | null = null;
  for (;;) {
    const next = await events.next();
    if (next.done === true) return next.value;
    const event = next.value;
    if (!spoke && ["thinking", "text", "tool_use"].includes(event.type)) {
      spoke = true;
      run.stage("first_output");
    }
    if (event.type === "result") result = event;
    // The last one decides. Of a refused request the subtype is `success` too.
    if (event.type === "exited" && result !== null)
      run.stage("result", !result.ok && result.subtype === "success" ? "error" : result.subtype);
    run.event(event);
  }
};

/** Where the cached clone lies with its lock; null: the worktree has none. */
export const cacheDirectoryOf = ({ repoKey, commonDir }: Worktree): string | null =>
  repoKey === null ? null : dirname(commonDir);

/** The session asked for, the one of an attempt that was lost, or a fresh one. */
const chooseSession = async (record: JobRecord, profiles: Profiles, newId: () => string) => {
  if (record.session_id !== null) {
    const transcript = await profiles.findTranscript(record.session_id);
    if (transcript !== null) return { id: record.session_id, resumeFrom: transcript };
    if (record.request.session_id !== "") throw new UnknownSession(record.request.session_id);
  }
  return { id: newId(), resumeFrom: null };
};

/** The session that a caller wants to resume has no transcript on this instance. */
export class UnknownSession extends Error {
  override name = "UnknownSession";
  constructor(sessionId: string) {
    super(`There is no transcript of agent session ${sessionId}; submit the task without session_id`);
  }
}

const promptOf = (record: JobRecord, resumed: boolean): string =>
  resumed && record.request.session_id === ""
    ? `Your work on this task was interrupted. Look at what is done already and bring it to its end.\n\n${record.task}`
    : record.task;
