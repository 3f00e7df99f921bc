import type { AgentEvent } from "../../contract/event.ts";
import type { Agent, AgentOutcome, AgentTurn } from "../agent.ts";
import { createEventQueue } from "../event-queue.ts";
import { runTurn } from "./run-turn.ts";
import type { ClaudeSettings } from "./settings.ts";

type Options = {
  settings: ClaudeSettings;
  /** The service's own environment, of which the agent gets an allow-list. */
  env: NodeJS.ProcessEnv;
};

/** The agent that runs Claude Code, or a program that speaks its protocol. */
export const createClaudeAgent = ({ settings, env }: Options): Agent => ({
  run: async function* (turn: AgentTurn): AsyncGenerator<AgentEvent, AgentOutcome, void> {
    const queue = createEventQueue();
    const left = new AbortController();
    const signal = AbortSignal.any([turn.signal, left.signal]);
    const outcome = runTurn({ settings, env, turn: { ...turn, signal }, emit: queue.push }).finally(
      queue.close,
    );
    // A defect of ours is thrown below; until a slow reader gets there nobody listens, which must not end the service.
    outcome.catch(() => {});
    try {
      yield* queue.read();
      return await outcome;
    } finally {
      // A reader that stops early must not leave an agent at work.
      left.abort(new Error("nobody reads the events of the run any more"));
      await outcome;
    }
  },
});
