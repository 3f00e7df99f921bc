import type { Worktree } from "../../src/contract/worktree.ts";
import { sampleWorktree } from "./sample-worktree.ts";
import { json, stubService } from "./stub-service.ts";

export const ready = sampleWorktree();
const id = ready.worktree_id;

/** A service on which one worktree goes through these states, one for each time it is asked for; the last one stays. */
export const start = async (states: Worktree[]) => {
  const state = { states };
  const stub = await stubService({
    "POST /worktrees": (asked, response) =>
      json(200, { success: true, worktree_id: id, worktree: state.states[0], added_later: 1 })(
        asked,
        response,
      ),
    [`GET /worktrees/${id}`]: (asked, response) => {
      if (state.states.length > 1) state.states = state.states.slice(1);
      json(200, { success: true, worktree: state.states[0], added_later: 1 })(asked, response);
    },
  });
  return { state, stub, env: { SERVICE_PORT: String(stub.port) } };
};

/** A service that answers one thing to one question. */
export const answering = async (question: string, status: number, body: unknown) => {
  const stub = await stubService({ [question]: json(status, body) });
  return { stub, env: { SERVICE_PORT: String(stub.port) } };
};
