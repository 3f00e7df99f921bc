import type { AgentEvent } from "../../contract/event.ts";
import type { Redact } from "../../lib/redact.ts";
import type { SupervisedProcess } from "../../lib/process/supervise.ts";
import type { AgentOutcome, AgentTurn } from "../agent.ts";
import { userLine } from "./arguments.ts";
import type { EndCause } from "./classify.ts";
import { prepareLaunch } from "./launch.ts";
import { watchLimits } from "./limits.ts";
import { type Attended, endWarnings, outcomeOf, unstarted } from "./outcome.ts";
import { readOutput } from "./read-output.ts";
import type { ClaudeSettings } from "./settings.ts";

export type Run = {
  settings: ClaudeSettings;
  env: NodeJS.ProcessEnv;
  turn: AgentTurn;
  emit: (event: AgentEvent, bytes: number) => void;
};

/** One turn from the spawn to the proof that nothing of it is left. Never rejects: the last event is `exited`. */
export const runTurn = async (run: Run): Promise<AgentOutcome> => {
  const { settings, env, turn } = run;
  const emit = (event: AgentEvent): void => run.emit(event, 200);
  const { warnings, redact, spawn } = prepareLaunch({ settings, env, turn });
  for (const message of warnings) emit({ type: "warning", message });

  if (turn.signal.aborted) {
    emit({ type: "exited", exit_code: null, signal: null });
    return unstarted({ code: "aborted", reason: turn.signal.reason });
  }
  const spawned = await spawn();
  if (!spawned.ok) {
    emit({ type: "exited", exit_code: null, signal: null });
    return unstarted(spawned);
  }
  const attended = await attend({ ...run, process: spawned.process, redact });
  const { ended } = attended;
  for (const message of endWarnings(attended)) emit({ type: "warning", message });
  emit({ type: "exited", exit_code: ended.exitCode, signal: ended.signal });
  return outcomeOf({ settings, turn, redact, ...attended });
};

/** Gives the agent its prompt, reads what it says, and ends it when it is done, too slow or not wanted any more. */
const attend = async ({
  settings,
  turn,
  emit,
  process: agent,
  redact,
}: Run & { process: SupervisedProcess; redact: Redact }): Promise<
  Attended & { interruption: unknown; prompted: boolean }
> => {
  let cause: EndCause = null;
  let interruption: unknown = null;
  let prompted = false;
  const end = (why: EndCause, reason: unknown = null): void => {
    if (cause !== null) return;
    cause = why;
    interruption = reason;
    // `ended` below is what the stop resolves with.
    void agent.stop({ graceSeconds: reason === "fence" ? 0 : settings.agentCliKillGrace });
  };

  using limits = watchLimits(
    {
      wall: turn.launch.timeoutSeconds,
      firstOutput: settings.agentCliFirstOutputTimeout,
      idle: settings.agentCliIdleTimeout,
      resultGrace: settings.agentCliResultGrace,
    },
    end,
  );
  const observed = readOutput({
    stdout: agent.stdout,
    stderr: agent.stderr,
    redact,
    emit,
    onLine: limits.event,
    onResult: () => {
      limits.result();
      // One turn per process: without more input the agent exits.
      agent.stdin.end();
    },
  });
  const onAbort = (): void => end("aborted", turn.signal.reason);
  turn.signal.addEventListener("abort", onAbort, { once: true });
  if (turn.signal.aborted) onAbort();

  try {
    const identity = await agent.identity;
    if (identity !== null) await turn.onSpawn(identity);
    if (cause === null) {
      agent.stdin.write(userLine([{ type: "text", text: turn.prompt }]));
      prompted = true;
      limits.promptGiven();
    }
  } catch (error) {
    end("not_recorded", error);
  }
  const ended = await agent.ended;
  turn.signal.removeEventListener("abort", onAbort);
  return { ended, observed, cause, interruption, prompted };
};
