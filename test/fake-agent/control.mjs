import { writeLine } from "./write.mjs";

/**
 * Answers control requests as the real one does: `initialize` counts once, before the first message, and what it appends to
 * the system prompt replaces what the option appends. Model and effort stay until they are set anew.
 */
export const createControl = ({ args, turns, asking }) => {
  let initialized = false;

  const initialize = ({ systemPrompt, appendSystemPrompt, hooks }) => {
    if (!initialized && turns.number() === 0) {
      asking.register(hooks);
      if (systemPrompt !== undefined) args.systemPrompt = [systemPrompt].flat().join("\n");
      if (appendSystemPrompt !== undefined) args.appendSystemPrompt = appendSystemPrompt;
    }
    initialized = true;
    return { commands: [], agents: [], models: [], pid: process.pid };
  };

  const requests = {
    initialize,
    set_model: ({ model }) => {
      args.model = model;
    },
    apply_flag_settings: ({ settings }) => {
      if (settings.effortLevel !== undefined) args.effort = settings.effortLevel;
    },
    cancel_async_message: ({ message_uuid }) => ({ cancelled: turns.cancel(message_uuid) }),
    mcp_set_servers: ({ servers }) => {
      args.mcpServers = Object.keys(servers);
      return { added: args.mcpServers, removed: [], errors: {} };
    },
  };

  return ({ request_id, request }) => {
    if (request.subtype === "interrupt") {
      // Acknowledged before the turn ends, which is later than this.
      if (turns.interrupt()) answer({ subtype: "success", request_id });
      return;
    }
    const handle = requests[request.subtype];
    if (handle === undefined) {
      return answer({
        subtype: "error",
        request_id,
        error: `Unsupported control request subtype: ${request.subtype}`,
      });
    }
    answer({ subtype: "success", request_id, response: handle(request) });
  };
};

const answer = (response) => writeLine({ type: "control_response", response });
