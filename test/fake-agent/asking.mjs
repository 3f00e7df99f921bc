import { randomUUID } from "node:crypto";
import { writeLine } from "./write.mjs";

/** How long a resumed process waits for hooks before it asks anew without them, ms. */
const hookWaitMs = 300;

/** What the agent asks of whoever started it, over its standard output and input. */
export const createAsking = ({ args }) => {
  /** Requests without an answer, by their id. */
  const waiting = new Map();
  const { promise: initialized, resolve: initialize } = Promise.withResolvers();
  let hooks = [];

  const request = (body) => {
    const { promise, resolve } = Promise.withResolvers();
    const id = randomUUID();
    waiting.set(id, resolve);
    writeLine({ type: "control_request", request_id: id, request: body });
    return promise;
  };
  const offers = (tool) =>
    args.permissionPromptTool === "stdio" &&
    !(args.disallowedTools ?? []).some((names) => names.split(",").includes(tool));

  /** What the hooks say: nothing, `defer` or `deny`. */
  const hook = async ({ id, name, input }) => {
    const callback = hooks.find(({ matcher }) => matcher.split("|").includes(name));
    if (callback === undefined) return {};
    const given = { hook_event_name: "PreToolUse", tool_name: name, tool_input: input, tool_use_id: id };
    const [callback_id] = callback.hookCallbackIds;
    const { response } = await request({
      subtype: "hook_callback",
      callback_id,
      input: given,
      tool_use_id: id,
    });
    return response?.hookSpecificOutput ?? {};
  };

  /** The answer to a call for which a permission is needed; null: it is deferred. */
  const permission = async (call, { hookless = false, more = {} } = {}) => {
    const decision = hookless ? {} : await hook(call);
    if (decision.permissionDecision === "defer") return null;
    if (decision.permissionDecision === "deny")
      return { behavior: "deny", message: decision.permissionDecisionReason };
    const { id, name, input } = call;
    const { subtype, response, error } = await request({
      subtype: "can_use_tool",
      tool_name: name,
      display_name: name,
      input,
      tool_use_id: id,
      ...more,
    });
    if (subtype === "success") return response;
    return { behavior: "deny", message: `Tool permission request failed: Error: ${error}` };
  };

  return {
    request,
    permission,
    offers,
    /** The hooks of `initialize`. */
    register: ({ PreToolUse = [] } = {}) => {
      hooks = PreToolUse;
      initialize();
    },
    /** Resolves when a resumed process asks anew. */
    ready: () => Promise.race([initialized, new Promise((resolve) => setTimeout(resolve, hookWaitMs))]),
    answered: (response) => {
      waiting.get(response.request_id)?.(response);
      waiting.delete(response.request_id);
    },
    /** The turn was interrupted: its requests need no answer any more. */
    cancel: () => {
      for (const id of waiting.keys()) writeLine({ type: "control_cancel_request", request_id: id });
      waiting.clear();
    },
    /** As 2.1.197: without its input a question fails, and the agent goes on. */
    inputEnded: () => {
      for (const resolve of waiting.values()) resolve({ subtype: "error", error: "Stream closed" });
      waiting.clear();
    },
  };
};
