import { randomUUID } from "node:crypto";
import { writeLine } from "./write.mjs";

/** The lines of the real CLI, in its order: deltas first, then the whole block, then its stop. */
export const createProtocol = ({ session, model, transcript, write = writeLine, cost = () => 0.0123 }) => {
  const common = () => ({ session_id: session, uuid: randomUUID() });
  let tools = 0;
  let turns = 0;

  const stream = (event) => write({ type: "stream_event", event, parent_tool_use_id: null, ...common() });
  const assistant = (content, more = {}) => {
    const message = {
      id: `msg_${turns}`,
      role: "assistant",
      model: `fake-${model}`,
      content,
      stop_reason: null,
    };
    write({ type: "assistant", message, parent_tool_use_id: null, ...common(), ...more });
  };
  const block = (kind, text, { pieces = 4, index = 0 } = {}) => {
    stream({ type: "content_block_start", index, content_block: { type: kind, [kind]: "" } });
    const step = Math.max(1, Math.ceil(text.length / pieces));
    for (let at = 0; at < text.length; at += step) {
      stream({
        type: "content_block_delta",
        index,
        delta: { type: `${kind}_delta`, [kind]: text.slice(at, at + step) },
      });
    }
    assistant([{ type: kind, [kind]: text }]);
    stream({ type: "content_block_stop", index });
  };
  const message = (body) => {
    turns += 1;
    write({ type: "system", subtype: "status", status: "requesting", ...common() });
    stream({ type: "message_start", message: { id: `msg_${turns}` } });
    body();
    stream({ type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 20 } });
    stream({ type: "message_stop" });
  };

  const call = (id, name, input, { parent = null } = {}) => {
    turns += 1;
    assistant([{ type: "tool_use", id, name, input }], { parent_tool_use_id: parent });
  };
  const toolResult = (id, content, { isError = false, parent = null } = {}) => {
    const block = { type: "tool_result", tool_use_id: id, content, is_error: isError };
    const message = { role: "user", content: [block] };
    write({ type: "user", message, parent_tool_use_id: parent, ...common() });
  };

  const result = (more = {}) =>
    write({
      type: "result",
      subtype: "success",
      is_error: false,
      api_error_status: null,
      result: "Done.",
      duration_ms: 12,
      duration_api_ms: 8,
      num_turns: turns,
      total_cost_usd: cost(),
      stop_reason: "end_turn",
      usage: {
        input_tokens: 100,
        output_tokens: 20,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 7,
      },
      permission_denials: [],
      terminal_reason: "completed",
      ...common(),
      ...more,
    });

  return {
    line: write,
    stream,
    common,
    assistant,
    init: () =>
      write({
        type: "system",
        subtype: "init",
        cwd: process.cwd(),
        tools: ["Bash", "Write"],
        mcp_servers: [],
        model: `fake-${model}`,
        claude_code_version: "2.1.197",
        apiKeySource: "none",
        ...common(),
      }),
    think: (text) => message(() => block("thinking", text)),
    say: (text, how) => {
      message(() => block("text", text, how));
      transcript.add("assistant", text);
    },
    tool: (name, input, content, how = {}) => {
      const id = `toolu_fake_${(tools += 1)}`;
      call(id, name, input, how);
      toolResult(id, content, how);
      return id;
    },
    /** A call whose result comes later. Its id is its own in the whole session. */
    call: (name, input) => {
      const id = `toolu_fake_${randomUUID()}`;
      call(id, name, input);
      return id;
    },
    toolResult,
    result,
    /** What ends a turn for the sake of a message with the priority `now`. */
    cutOff: () => result({ result: "Half a", stop_reason: "tool_use", terminal_reason: "aborted_tools" }),
    /** The user line is taken up. */
    replay: (content, uuid) => {
      const message = { role: "user", content };
      write({ type: "user", message, parent_tool_use_id: null, ...common(), uuid, isReplay: true });
    },
    /** What ends a turn that was interrupted. */
    interrupted: () => {
      const content = [{ type: "text", text: "[Request interrupted by user]" }];
      write({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, ...common() });
      result({
        subtype: "error_during_execution",
        is_error: true,
        api_error_status: undefined,
        result: undefined,
        errors: ["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"],
        terminal_reason: "aborted_streaming",
      });
    },
  };
};
