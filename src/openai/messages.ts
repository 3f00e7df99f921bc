import type { ChatMessage } from "../chat/chat.ts";
import { isBase64 } from "../contract/run-options.ts";
import { RequestFault } from "./public-failure.ts";

export type Conversation = { system: string[]; messages: ChatMessage[] };

type Part = ChatMessage["content"][number];
type Given = Record<string, unknown>;

/**
 * Reads the messages of a request: those of system and developer separately, those about tools as text of the
 * assistant.
 * @throws RequestFault naming the message, and the part of it, that is not supported
 */
export const readMessages = (given: readonly unknown[]): Conversation => {
  const system: string[] = [];
  const messages: ChatMessage[] = [];
  const callNames = new Map<string, string>();
  for (const [index, message] of given.entries()) {
    const at = `messages[${index}]`;
    if (!isObject(message)) throw new RequestFault(at, "must be an object", "invalid_type");
    switch (message["role"]) {
      case "system":
      case "developer": {
        const text = joined(partsOf(message["content"], at, ["text"]));
        if (text !== "") system.push(text);
        break;
      }
      case "user":
        messages.push({ role: "user", content: partsOf(message["content"], at, ["text", "image_url"]) });
        break;
      case "assistant":
        messages.push({ role: "assistant", content: assistantParts(message, at, callNames) });
        break;
      case "tool":
      case "function":
        messages.push({ role: "assistant", content: [resultPart(message, at, callNames)] });
        break;
      default:
        throw new RequestFault(
          `${at}.role`,
          "must be one of developer, system, user, assistant, tool, function",
          message["role"] === undefined ? "missing_required_parameter" : "invalid_value",
        );
    }
  }
  checkLast(given, messages);
  return { system, messages };
};

const checkLast = (given: readonly unknown[], messages: readonly ChatMessage[]): void => {
  const last = messages.at(-1);
  const isAside = (message: unknown) =>
    isObject(message) && ["system", "developer"].includes(message["role"] as string);
  const index = given.findLastIndex((message) => !isAside(message));
  if (last === undefined) throw new RequestFault("messages", "must have a message of the user");
  if (last.role !== "user")
    throw new RequestFault(
      `messages[${index}].role`,
      "the last message must be the user's: the agent answers the user, and runs its tools itself",
    );
  if (!last.content.some((part) => part.type !== "text" || part.text.trim() !== ""))
    throw new RequestFault(`messages[${index}].content`, "is empty; say something");
};

type PartType = "text" | "image_url" | "refusal";

const partsOf = (content: unknown, message: string, types: readonly PartType[]): Part[] => {
  const at = `${message}.content`;
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  if (content === undefined) throw new RequestFault(at, "is required", "missing_required_parameter");
  if (!Array.isArray(content))
    throw new RequestFault(at, "must be a string or an array of parts", "invalid_type");
  return content.map((part: unknown, index) => partOf(part, `${at}[${index}]`, types));
};

const partOf = (part: unknown, at: string, types: readonly PartType[]): Part => {
  if (!isObject(part)) throw new RequestFault(at, "must be an object", "invalid_type");
  const type = types.find((each) => each === part["type"]);
  if (type === undefined) throw unsupportedPart(part, at, types);
  if (type !== "image_url") return { type: "text", text: stringAt(part[type], `${at}.${type}`) };
  const { image_url: image } = part;
  return imageOf(stringAt(isObject(image) ? image["url"] : image, `${at}.image_url.url`), at);
};

const unsupportedPart = ({ type }: Given, at: string, types: readonly PartType[]): RequestFault => {
  const supported = types.filter((each) => each !== "refusal").join(" and ");
  return typeof type === "string"
    ? new RequestFault(
        at,
        `a part of type ${type.slice(0, 50)} is not supported here, only ${supported}`,
        "unsupported_content_type",
      )
    : new RequestFault(at, `needs a type: ${supported}`, "missing_required_parameter");
};

/** The assistant's text, and below it, in words, its tool calls: the agent cannot be given calls of another one. */
const assistantParts = (message: Given, at: string, callNames: Map<string, string>): Part[] => {
  const { content, refusal, tool_calls: calls, function_call: call } = message;
  const said =
    content === null || content === undefined ? [] : partsOf(spoken(content), at, ["text", "refusal"]);
  const refused: Part[] = typeof refusal === "string" ? [{ type: "text", text: refusal }] : [];
  const called: Part[] = [];
  if (isObject(call)) called.push(callPart(call));
  if (Array.isArray(calls))
    for (const each of calls.filter(isObject)) {
      const { id, function: asFunction, custom } = each;
      const named = isObject(asFunction) ? asFunction : isObject(custom) ? custom : {};
      if (typeof id === "string") callNames.set(id, nameOf(named));
      called.push(callPart(named));
    }
  return [...said, ...refused, ...called];
};

/** Content without the parts that hold reasoning: UIs send back what they have shown. */
const spoken = (content: unknown): unknown =>
  Array.isArray(content)
    ? content.filter((part) => !isObject(part) || !reasoningParts.has(part["type"] as string))
    : content;

const reasoningParts = new Set(["thinking", "redacted_thinking", "reasoning", "reasoning_content", "think"]);

const callPart = (call: Given): Part => {
  const { arguments: given, input } = call;
  const args = typeof given === "string" ? given : typeof input === "string" ? input : "";
  return { type: "text", text: `[Called the tool ${nameOf(call)} with ${args}]` };
};

const resultPart = (message: Given, at: string, callNames: Map<string, string>): Part => {
  const { content, tool_call_id: id, name } = message;
  const text = content === null ? "" : joined(partsOf(content, at, ["text"]));
  const called = (typeof id === "string" ? callNames.get(id) : undefined) ?? nameOf({ name });
  return { type: "text", text: `[Result of the tool ${called}: ${text}]` };
};

const nameOf = ({ name }: Given): string => (typeof name === "string" ? name : "unknown");

const joined = (parts: readonly Part[]): string =>
  parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");

const stringAt = (value: unknown, at: string): string => {
  if (typeof value === "string") return value;
  if (value === undefined) throw new RequestFault(at, "is required", "missing_required_parameter");
  throw new RequestFault(at, "must be a string", "invalid_type");
};

const isObject = (value: unknown): value is Given =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The image of a data URL. Its bytes decide the type, whatever the URL says: with a wrong type the model's endpoint
 * would refuse the whole conversation from then on.
 * @param param position in the request
 * @throws RequestFault for every other URL
 */
const imageOf = (url: string, param: string): Part => {
  // The prefix is short; the data may have megabytes.
  const head = url.slice(0, 200);
  const comma = head.indexOf(",");
  if (!/^data:/i.test(head))
    throw new RequestFault(
      param,
      "must be a data URL (data:image/png;base64,…): the service fetches no images from other hosts",
      "unsupported_value",
    );
  if (comma === -1 || !/^data:image\/[\w.+-]+(;[\w=.-]+)*;base64$/i.test(head.slice(0, comma)))
    throw new RequestFault(param, "must be a data URL of an image in base64 (data:image/png;base64,…)");
  const base64 = url.slice(comma + 1);
  const mediaType = imageTypes.find(({ start }) => base64.startsWith(start))?.mediaType;
  if (mediaType === undefined) throw new RequestFault(param, "must be a PNG, JPEG, GIF or WebP image");
  if (!isBase64(base64)) throw new RequestFault(param, "is not valid base64");
  return { type: "image", mediaType, base64 };
};

/** The first bytes of each image format, in base64. */
const imageTypes = [
  { start: "iVBORw0KGgo", mediaType: "image/png" },
  { start: "/9j/", mediaType: "image/jpeg" },
  { start: "R0lGOD", mediaType: "image/gif" },
  { start: "UklGR", mediaType: "image/webp" },
];
