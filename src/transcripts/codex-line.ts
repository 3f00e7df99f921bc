import {
  blockText,
  countOf,
  filled,
  listOf,
  objectOf,
  parsed,
  textOf,
  textsIn,
  timeOf,
  type Json,
} from "./json.ts";
import { emptyLine, type Line, type LineFacts } from "./transcript-line.ts";

/**
 * One line of a rollout of Codex: `{timestamp, type, payload}`. Before September 2025 the payload of an item stood alone,
 * and what the session is on the first line.
 */
export const readCodex = (record: Json): Line | null => {
  const type = textOf(record["type"]);
  const at = timeOf(record["timestamp"]);
  if (isItem(type)) return readItem(record, { ...emptyLine, at });
  const payload = objectOf(record["payload"]);
  const common: Line = { ...emptyLine, at, uuid: textOf(payload["id"]) };
  switch (type) {
    case "session_meta":
      return { ...common, facts: { ...contextOf(payload), ...filled({ thread: common.uuid }) } };
    case "turn_context":
      return { ...common, facts: contextOf(payload) };
    case "response_item":
      return readItem(payload, common);
    case "event_msg":
      return readEvent(payload, common);
    case "compacted":
      return { ...common, type: "summary", content: textOf(payload["message"]) };
    case "":
      return "id" in record ? { ...emptyLine, at, facts: contextOf(record) } : null;
    default:
      return { ...common, unknown: type };
  }
};

const isItem = (type: string): boolean => /^(?:message|reasoning)$|_(?:call|output)$/.test(type);

const contextOf = ({ cwd, model, git }: Json): LineFacts =>
  filled({ cwd, model, branch: objectOf(git)["branch"] });

/** Codex, and its extension in an editor, write this in a person's name. */
const request = /^# Context from my IDE setup:[^]*?^## My request for Codex:\s*/m;
const written =
  /(?:^# AGENTS\.md instructions.*\s*<INSTRUCTIONS>[^]*?<\/INSTRUCTIONS>|<(environment_context|user_instructions|turn_aborted|permissions instructions|skill|subagent_notification|codex_internal_context)(?: [^<>]*)?>(?:(?!<\1[ >])[^])*?<\/\1>)\s*/gm;
const markup = /^(?:<(?:environment_context|user_instructions|turn_aborted|permissions)|# AGENTS\.md)/;

const readItem = (payload: Json, common: Line): Line => {
  const type = textOf(payload["type"]);
  if (type === "message") {
    const content = blockText(payload["content"]);
    if (payload["role"] === "assistant") return { ...common, type: "assistant", content };
    if (payload["role"] !== "user") return common;
    const blocks = typeof payload["content"] === "string" ? [content] : listOf(payload["content"]);
    const words = blocks
      .map((block) => blockText([block]).replace(request, "").replace(written, "").trim())
      .filter((text) => text !== "" && !markup.test(text))
      .join("\n");
    if (words !== "") return { ...common, type: "user", content: words, isPrompt: true };
    // The first releases told the directory there.
    const cwd = /<cwd>([^<]+)<\/cwd>|^Current working directory: (.+)$/m.exec(content);
    const facts = cwd === null ? {} : { cwd: cwd[1] ?? cwd[2] ?? "" };
    return { ...common, facts };
  }
  if (type === "reasoning") {
    const thinking = blockText([...listOf(payload["summary"]), ...listOf(payload["content"])]);
    return { ...common, type: "assistant", thinking, more: thinking };
  }
  if (type.endsWith("_output")) return readOutput(payload, common);
  if (type.endsWith("_call")) return readCall(type, payload, common);
  return /^(?:ghost_snapshot|compaction)$/.test(type)
    ? common
    : { ...common, unknown: `response_item ${type}` };
};

const readCall = (type: string, payload: Json, common: Line): Line => {
  const name = textOf(payload["name"]) || type.replace(/_call$/, "");
  const given = payload["arguments"] ?? payload["input"] ?? payload["action"];
  const input = typeof given === "string" ? objectOf(parsed(given)) : objectOf(given);
  const call = {
    id: textOf(payload["call_id"]),
    name,
    input: typeof given === "string" && Object.keys(input).length === 0 ? { input: given } : input,
  };
  return { ...common, type: "assistant", calls: [call], more: `${name}\n${textsIn(call.input)}` };
};

/** The output is text, or JSON with the text and the exit code. */
const readOutput = (payload: Json, common: Line): Line => {
  const given = payload["output"];
  const body = typeof given === "string" && given.startsWith("{") ? objectOf(parsed(given)) : objectOf(given);
  const text = textOf(body["output"]) || textOf(body["content"]) || blockText(given) || textsIn(given);
  const isError = countOf(objectOf(body["metadata"])["exit_code"]) !== 0 || body["success"] === false;
  return {
    ...common,
    type: "system",
    results: [{ id: textOf(payload["call_id"]), text, isError }],
    more: text,
  };
};

/** What is said and thought stands in the response items, too. */
const readEvent = (payload: Json, common: Line): Line => {
  const type = textOf(payload["type"]);
  if (type === "error" || type === "stream_error")
    return { ...common, type: "system", content: textOf(payload["message"]), isError: true };
  const total = objectOf(objectOf(payload["info"])["total_token_usage"])["total_tokens"];
  return type === "token_count" && typeof total === "number"
    ? { ...common, facts: { totalTokens: total } }
    : common;
};
