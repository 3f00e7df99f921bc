import { blockText, countOf, filled, listOf, objectOf, textOf, textsIn, timeOf, type Json } from "./json.ts";
import {
  emptyLine,
  type Call,
  type Line,
  type LineFacts,
  type Result,
  type TitleKind,
} from "./transcript-line.ts";
import { typedIn } from "./typed.ts";

/** One line of a session of Claude Code. The format is the CLI's own and changes: what is not known says nothing. */
export const readClaude = (record: Json): Line | null => {
  const common: Line = {
    ...emptyLine,
    at: timeOf(record["timestamp"]),
    uuid: textOf(record["uuid"]),
    session: textOf(record["sessionId"]),
    copyOf: textOf(objectOf(record["forkedFrom"])["messageUuid"]),
    sidechain: record["isSidechain"] === true,
    facts: filled({ cwd: record["cwd"], branch: record["gitBranch"], slug: record["slug"] }),
  };
  const type = textOf(record["type"]);
  if (type === "user") return readUser(record, common);
  if (type === "assistant") return readAssistant(record, common);
  if (type === "system") return readSystem(record, common);
  if (type === "attachment") return readAttachment(record, common);
  if (type === "cost-state") return readCost(record, common);
  const title = titles[type];
  if (title !== undefined) return readTitle(record, title, common);
  if (type === "") return null;
  return ownTypes.has(type) ? common : { ...common, unknown: type };
};

/** Lines in which the CLI keeps its own books: snapshots, requests, queue, state. Nobody said or did what they tell. */
const ownTypes = new Set(
  `api-request api-request-blob api-request-shape atis-latch file-history-delta file-history-snapshot last-prompt mode
  permission-mode pr-link progress queue-operation tools-used`.split(/\s+/),
);

/** Attachments that tell the model of the CLI itself, the same in every session: prompt, tools, skills, machine, limits. */
const ownAttachments =
  /_(?:listing|delta|snapshot|change|reminder|mode|context)$|^(?:environment|model|date|output_style|token_usage|budget_usd)$/;

/** Tools and people attach these: files, output of hooks, words of an editor. They are searched. */
const searchedAttachments =
  /^(?:file|directory|edited_text_file|mcp_resource|diagnostics|selected_lines_in_ide|(?:async_)?hook_\w+)$/;

const beginning =
  /^\{(?:"type":"([\w-]+)"|"parentUuid":(?:null|"[^"]*"),"isSidechain":(?:true|false),"attachment":\{"type":"([\w-]+)")/;

/** It stands where JSON has no object, after a record or what is left of one, or begins as only a record does. */
const another = /[^:,[]\{"|.\{"(?:parentUuid|type":"(?:user|assistant))"/s;

/** Whether a line is seen to be one of the CLI's own, and nothing else, without being parsed: it may be long. */
export const isOwnOfClaude = (line: Buffer): boolean => {
  const [, type = "", attachment = ""] = beginning.exec(line.toString("latin1", 0, 200)) ?? [];
  const isOwn = ownTypes.has(type) || ownAttachments.test(attachment);
  return isOwn && line.at(-1) === 0x7d && !another.test(line.toString("latin1"));
};

const titles: Record<string, { kind: TitleKind; field: string }> = {
  "custom-title": { kind: "custom", field: "customTitle" },
  "agent-name": { kind: "agent", field: "agentName" },
  "ai-title": { kind: "ai", field: "aiTitle" },
  summary: { kind: "summary", field: "summary" },
};

const readTitle = (record: Json, { kind, field }: (typeof titles)[string], common: Line): Line => {
  const text = textOf(record[field]);
  if (text === "") return common;
  const title = { kind, text, leaf: textOf(record["leafUuid"]) };
  const line: Line = { ...common, type: "summary", facts: { ...common.facts, title } };
  // A title is found by its words, but it is no entry that a reader sees.
  return kind === "summary" ? { ...line, content: text } : { ...line, more: text };
};

const readUser = (record: Json, common: Line): Line => {
  const blocks = blocksOf(record);
  const results = blocks.filter(({ type }) => type === "tool_result").map(resultOf);
  const typed = blocks.map((block) => typedIn(textOfBlock(block)));
  const [words, markup] = [joined(typed.map((each) => each.words)), joined(typed.map((each) => each.markup))];
  const isCompacted = record["isCompactSummary"] === true;
  // The CLI tells the model: a skill, to go on.
  if (record["isMeta"] === true && !isCompacted && results.length === 0) return common;
  const isSummary = isCompacted || (words === "" && typed.some((each) => each.isSummary));
  const isPrompt = words !== "" && !isSummary && record["isMeta"] !== true;
  const more = results.map(({ text }) => text);
  // It repeats the result.
  if (results.length === 0) more.push(textsIn(record["toolUseResult"]));
  if (isPrompt) more.push(markup);
  return {
    ...common,
    type: isPrompt ? "user" : isSummary ? "summary" : "system",
    content: isPrompt ? words : joined([words, markup]),
    results,
    more: joined(more),
    isPrompt: isPrompt && !common.sidechain,
  };
};

/** A text stands for a block with it. */
const blocksOf = ({ message }: Json): Json[] => {
  const { content } = objectOf(message);
  const blocks = typeof content === "string" ? [content] : listOf(content);
  return blocks.map((block) => (typeof block === "string" ? { type: "text", text: block } : objectOf(block)));
};

const joined = (texts: readonly string[]): string => texts.filter((text) => text !== "").join("\n");

const textOfBlock = ({ type, text }: Json): string =>
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
  for (const block of blocksOf(record)) {
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
    content: joined(said),
    thinking: thinking.join("\n"),
    calls,
    more: joined([...thinking, ...more]),
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
    tokens: ["input", "output", "cache_creation_input", "cache_read_input"]
      .map((kind) => countOf(usage[`${kind}_tokens`]))
      .reduce((sum, count) => sum + count),
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

const readAttachment = (record: Json, common: Line): Line => {
  const { type: given, ...rest } = objectOf(record["attachment"]);
  const type = textOf(given);
  if (type === "queued_command") return readQueued(rest, common);
  if (searchedAttachments.test(type)) return { ...common, type: "system", more: textsIn(rest) };
  return ownAttachments.test(type) ? common : { ...common, unknown: `attachment ${type}` };
};

/** A person typed it while the agent worked. The CLI queues notes of its own likewise. */
const readQueued = ({ prompt, commandMode: mode = "prompt", isMeta }: Json, common: Line): Line =>
  mode === "prompt" ? readUser({ message: { content: prompt }, isMeta }, common) : common;

const readCost = ({ totalCostUSD: usd }: Json, common: Line): Line =>
  typeof usd === "number" && Number.isFinite(usd)
    ? { ...common, facts: { ...common.facts, totalCost: usd } }
    : common;
