import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { write } from "../write.mjs";
import { slowDeltas } from "./output.mjs";

/**
 * Streams `steps` in their order: `{"thinking"}`, `{"text"}`, `{"tool": {name, input, result, isError, ms}}`; `{"ms"}` waits.
 * Words come in pieces of `deltaLength` characters, `deltaMs` apart. As the real one it keeps what comes up to a tool call
 * in one message. The result is the last text, or `result`; `status` makes it an error.
 */
export const chat = async (turn) => {
  const { options, init, result } = turn;
  const { steps = [{ text: "Hello." }], status } = options;
  init();
  const message = createMessage(turn);
  for (const step of steps) {
    if (step.ms !== undefined) await delay(step.ms);
    if (step.thinking !== undefined) await message.words("thinking", step.thinking);
    if (step.text !== undefined) await message.words("text", step.text);
    if (step.tool !== undefined) await message.tool(step.tool);
  }
  message.end("end_turn");
  const text = options.result ?? steps.findLast((step) => step.text !== undefined)?.text ?? "";
  result({
    result: text,
    num_turns: message.count(),
    ...(status === undefined ? {} : { is_error: true, api_error_status: status }),
  });
};

/** Answers with exactly what it was told, as JSON. */
export const echo = ({ prompt, content, args, turnNumber, earlierPrompts, init, say, result, common }) => {
  init();
  const told = {
    prompt,
    system: args.systemPrompt ?? null,
    append: args.appendSystemPrompt ?? null,
    model: args.model,
    effort: args.effort ?? null,
    images: content.filter(({ type }) => type === "image").length,
    turn: turnNumber,
    session: common().session_id,
    resumed: args.resume !== undefined,
    earlierPrompts,
    maxTurns: args.maxTurns ?? null,
    mcpServers: args.mcpServers ?? null,
    mcpConfig: args.mcpConfig ?? [],
    pid: process.pid,
    cwd: process.cwd(),
  };
  say(JSON.stringify(told));
  result({ result: JSON.stringify(told) });
};

/**
 * Streams for ever and does not listen to an interrupt; with `ignoreTerm` to no signal but KILL either. With `leave` it
 * starts a process in a session of its own that is deaf to TERM.
 */
export const interruptDeaf = async (turn) => {
  turn.ignoreInterrupt();
  if (turn.options.leave) {
    const script = "trap '' TERM; while :; do sleep 1; done";
    spawn("/bin/sh", ["-c", script], { stdio: "ignore", detached: true });
  }
  if (turn.options.ignoreTerm) {
    for (const signal of ["SIGTERM", "SIGHUP", "SIGINT"])
      process.removeAllListeners(signal).on(signal, () => {});
  }
  await slowDeltas({ ...turn, options: { rate: 20, ...turn.options, count: Number.POSITIVE_INFINITY } });
};

/** After its result it works on (`after: "work"`, or `"work-at-once"`), writes for ever (`"garbage"`), or gives a second result (`"late-result"`). */
export const restless = ({ options, init, say, result }) => {
  init();
  result();
  const afterwards = {
    work: () => setTimeout(() => say("I had another idea."), 20),
    "work-at-once": () => say("I had another idea."),
    garbage: () => setInterval(() => write(`${"garbage ".repeat(8192)}\n`), 1),
    // When the next prompt is there, but has not been taken up.
    "late-result": () =>
      process.stdin.prependOnceListener("data", () => result({ is_error: true, result: "Too late." })),
  };
  afterwards[options.after]();
};

const createMessage = ({ options, stream, assistant, line, common }) => {
  const { deltaLength = 8, deltaMs = 0 } = options;
  let index = -1;
  let tools = 0;
  let messages = 0;

  const block = (content) => {
    if (index === -1) {
      messages += 1;
      line({ type: "system", subtype: "status", status: "requesting", ...common() });
      stream({ type: "message_start", message: {} });
    }
    index += 1;
    stream({ type: "content_block_start", index, content_block: content });
  };
  const pieces = async (text, delta) => {
    for (let at = 0; at < text.length; at += deltaLength) {
      if (deltaMs > 0) await delay(deltaMs);
      stream({ type: "content_block_delta", index, delta: delta(text.slice(at, at + deltaLength)) });
    }
  };
  const end = (stopReason) => {
    if (index === -1) return;
    index = -1;
    stream({ type: "message_delta", delta: { stop_reason: stopReason }, usage: { output_tokens: 20 } });
    stream({ type: "message_stop" });
  };

  return {
    end,
    count: () => messages,
    words: async (kind, text) => {
      block({ type: kind, [kind]: "" });
      await pieces(text, (piece) => ({ type: `${kind}_delta`, [kind]: piece }));
      assistant([{ type: kind, [kind]: text }]);
      stream({ type: "content_block_stop", index });
    },
    tool: async ({ name, input = {}, result = "", isError = false, ms = 0 }) => {
      const id = `toolu_chat_${(tools += 1)}_${Math.random().toString(36).slice(2)}`;
      block({ type: "tool_use", id, name, input: {} });
      await pieces(JSON.stringify(input), (piece) => ({ type: "input_json_delta", partial_json: piece }));
      assistant([{ type: "tool_use", id, name, input }]);
      stream({ type: "content_block_stop", index });
      end("tool_use");
      if (ms > 0) await delay(ms);
      const content = [{ type: "tool_result", tool_use_id: id, content: result, is_error: isError }];
      line({ type: "user", message: { role: "user", content }, parent_tool_use_id: null, ...common() });
    },
  };
};
