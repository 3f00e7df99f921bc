import { blockText, countOf, listOf, objectOf, textOf, textsIn, timeOf, type Json } from "./json.ts";
import {
  emptyLine,
  type Call,
  type Line,
  type LineFacts,
  type Result,
  type TitleKind,
} from "./transcript-line.ts";

/** One line of a session of Claude Code. The format is the CLI's own and changes: what is not known says nothing. */
export const readClaude = (record: Json): Line | null => {
  const common: Line = {
    ...emptyLine,
    at: timeOf(record["timestamp"]),
    uuid: textOf(record["uuid"]),
    sidechain: record["isSidechain"] === true,
    facts: placeOf(record),
  };
  const type = textOf(record["type"]);
  if (type === "user") return readUser(record, common);
  if (type === "assistant") return readAssistant(record, common);
  if (type === "system") return readSystem(record, common);
  if (type === "attachment") return readAttachment(record, common);
  const title = titles[type];
  if (title !== undefined) return readTitle(textOf(record[title.field]), title.kind, common);
  return type === "" ? null : common;
};

const placeOf = (record: Json): LineFacts => {
  const facts: LineFacts = {};
  const [cwd, branch, slug] = [record["cwd"], record["gitBranch"], record["slug"]];
  if (typeof cwd === "string" && cwd !== "") facts.cwd = cwd;
  if (typeof branch === "string" && branch !== "") facts.branch = branch;
  if (typeof slug === "string" && slug !== "") facts.slug = slug;
  return facts;
};

const titles: Record<string, { kind: TitleKind; field: string }> = {
  "custom-title": { kind: "custom", field: "customTitle" },
  "agent-name": { kind: "agent", field: "agentName" },
  "ai-title": { kind: "ai", field: "aiTitle" },
  summary: { kind: "summary", field: "summary" },
};

const readTitle = (text: string, kind: TitleKind, common: Line): Line => {
  if (text === "") return common;
  const line: Line = { ...common, facts: { ...common.facts, title: { kind, text } } };
  // A title is found by its words, but it is no entry that a reader sees.
  return kind === "summary"
    ? { ...line, type: "summary", content: text }
    : { ...line, type: "summary", more: text };
};

/** The CLI writes this in a person's name. */
const markup =
  /^\s*(?:<(?:command-|local-command-|bash-|system-reminder|task-notification|teammate-message)|\[Request interrupted|Caveat: The messages below)/;

const readUser = (record: Json, common: Line): Line => {
  const { content } = objectOf(record["message"]);
  const blocks = typeof content === "string" ? [] : listOf(content).map(objectOf);
  const results = blocks.filter(({ type }) => type === "tool_result").map(resultOf);
  const said =
    typeof content === "string"
      ? content
      : listOf(content)
          .map((block) => (typeof block === "string" ? block : saidBy(objectOf(block))))
          .filter((text) => text !== "")
          .join("\n");
  const more = results.map(({ text }) => text);
  // It repeats the result.
  if (results.length === 0) more.push(textsIn(record["toolUseResult"]));
  const isSummary = record["isCompactSummary"] === true;
  const isPrompt = said !== "" && !isSummary && record["isMeta"] !== true && !markup.test(said);
  return {
    ...common,
    type: isPrompt ? "user" : isSummary ? "summary" : "system",
    content: said,
    results,
    more: more.filter((text) => text !== "").join("\n"),
    isPrompt: isPrompt && !common.sidechain,
  };
};

const saidBy = ({ type, text }: Json): string =>
  type === "text" ? textOf(text) : type === "image" || type === "document" ? `[${type}]` : "";

const resultOf = (block: Json): Result => ({
  id: textOf(block["tool_use_id"]),
  text: blockText(block["content"]),
  isError: block["is_error"] === true,
});

const readAssistant = (record: Json, common: Line): Line => {
  const message = objectOf(record["message"]);
  const said: string[] = [];
  const more: string[] = [];
  const thinking: string[] = [];
  const calls: Call[] = [];
  const content = message["content"];
  for (const block of typeof content === "string"
    ? [{ type: "text", text: content }]
    : listOf(content).map(objectOf)) {
    if (block["type"] === "text") said.push(textOf(block["text"]));
    else if (block["type"] === "thinking") thinking.push(textOf(block["thinking"]));
    else if (block["type"] === "tool_use" || block["type"] === "server_tool_use") {
      const call = { id: textOf(block["id"]), name: textOf(block["name"]), input: objectOf(block["input"]) };
      calls.push(call);
      more.push(call.name, textsIn(call.input));
    } else if (block["type"] !== "redacted_thinking") more.push(blockText([block]));
  }
  const model = textOf(message["model"]);
  const isError = record["isApiErrorMessage"] === true;
  return {
    ...common,
    type: "assistant",
    content: said.filter((text) => text !== "").join("\n"),
    thinking: thinking.join("\n"),
    calls,
    more: [...thinking, ...more].filter((text) => text !== "").join("\n"),
    isError,
    // The CLI's own messages name a model that does not exist.
    facts: {
      ...common.facts,
      ...(model !== "" && model !== "<synthetic>" && { model }),
      bill: billOf(record, message),
    },
  };
};

const billOf = (record: Json, message: Json): LineFacts["bill"] & object => {
  const usage = objectOf(message["usage"]);
  const cost = record["costUSD"];
  return {
    id: textOf(message["id"]) || textOf(record["uuid"]),
    tokens:
      countOf(usage["input_tokens"]) +
      countOf(usage["output_tokens"]) +
      countOf(usage["cache_creation_input_tokens"]) +
      countOf(usage["cache_read_input_tokens"]),
    cost: typeof cost === "number" ? cost : null,
  };
};

const readSystem = (record: Json, common: Line): Line => ({
  ...common,
  type: "system",
  content: textOf(record["content"]) || textOf(objectOf(record["message"])["content"]),
  more: textsIn(record["error"]),
  isError: record["level"] === "error",
});

/** What the CLI tells the model of itself is the same in every session: lists of skills, system prompt, machine. */
const readAttachment = (record: Json, common: Line): Line => {
  const { type, ...rest } = objectOf(record["attachment"]);
  return /_(?:listing|delta|snapshot|change)$|^(?:environment|model)$/.test(textOf(type))
    ? common
    : { ...common, type: "system", more: textsIn(rest) };
};
