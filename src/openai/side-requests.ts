import type { ChatRequest } from "../chat/chat.ts";

export type SideAnswer = { kind: string; text: string };

/**
 * Answers the side requests of chat UIs about a chat (its title, tags, follow-up questions), in the form that they ask
 * for; null: the request is for the agent. UIs send these like any other request, under the chat's own id: the agent
 * would take them for its user's next message.
 * @param task value of `X-Service-Task`; null: none, and the wording of Open WebUI and LibreChat is recognised
 */
export const sideAnswer = (
  { system, messages }: Pick<ChatRequest, "system" | "messages">,
  task: string | null,
): SideAnswer | null => {
  const text = textOf(messages);
  const kind =
    task === null
      ? recognise(text, messages, system)
      : (tasks.find(({ name }) => name.test(task))?.kind ?? "plain title");
  return kind === null ? null : { kind, text: forms[kind](aboutOf(text)) };
};

type Kind = keyof typeof forms;

/** `about`: the user's first message in the chat. */
const forms = {
  title: (about: string) => JSON.stringify({ title: titleOf(about) }),
  "plain title": (about: string) => titleOf(about),
  tags: () => JSON.stringify({ tags: ["General"] }),
  "follow-ups": () => JSON.stringify({ follow_ups: [] }),
} as const;

/** Task names of the header, and the answer's field in the examples of Open WebUI's prompts. */
const tasks: readonly { kind: Kind; name: RegExp; field: RegExp }[] = [
  { kind: "follow-ups", name: /follow/i, field: /"follow_ups"\s*:/ },
  { kind: "tags", name: /tag/i, field: /"tags"\s*:/ },
  { kind: "title", name: /title/i, field: /"title"\s*:/ },
];

/** A real request may speak of titles too: a side request begins like a known UI's prompt and quotes the chat. */
const recognise = (
  text: string,
  messages: ChatRequest["messages"],
  system: readonly string[],
): Kind | null => {
  const chat = quotedChat(text);
  const isText = messages.length === 1 && messages[0]?.content.every(({ type }) => type === "text") === true;
  const instructions = text.replace(chat ?? "", "");
  if (!isText || hasSlashToken([...system, instructions])) return null;
  if (libreChatTitle.test(text) && userLine.test(text)) return "plain title";
  if (chat === null || !text.startsWith("### Task:")) return null;
  const isPlainTitle = /^### Task:\s+[^\n]{0,200}\btitle\b/i.test(instructions.slice(0, 500));
  const kind = tasks.find(({ field }) => field.test(instructions))?.kind;
  return kind ?? (isPlainTitle ? "plain title" : null);
};

const libreChatTitle = /^(Provide|Please generate|Write) a concise, 5-word-or-less title\b/i;

/** From the first `<chat_history>` on: the quoted messages may contain tags too. */
const quotedChat = (text: string): string | null => {
  const start = text.indexOf("<chat_history>");
  const end = text.lastIndexOf("</chat_history>");
  return start === -1 || end < start ? null : text.slice(start + "<chat_history>".length, end);
};

/** The user's first message in the chat that a prompt quotes; all of the text where none is quoted. */
const aboutOf = (text: string): string => {
  const chat = quotedChat(text) ?? text;
  const user = userLine.exec(chat);
  if (user === null) return chat;
  const said = chat.slice(user.index + user[0].length);
  const end = said.search(anyLine);
  return (end === -1 ? said : said.slice(0, end)).trim();
};

const userLine = /^(?:\|\|>)?(?:USER|Human):/im;
const anyLine = /^(?:\|\|>)?(?:USER|Human|ASSISTANT|AI|Response):/im;

const hasSlashToken = (texts: readonly string[]): boolean =>
  texts.some((text) =>
    /(?:^|\s)\/(?:(?:show|hide)-(?:thinking|tools|narration|final|all)|stream-status)(?=\s|$)/.test(text),
  );

const textOf = (messages: ChatRequest["messages"]): string =>
  (messages.findLast(({ role }) => role === "user")?.content ?? [])
    .map((part) => (part.type === "text" ? part.text : ""))
    .join("\n")
    .trimStart();

const mostWords = 6;
const mostCharacters = 60;

/** The first words of the user's first message, as the chat's title: one line, without slash tokens and marks. */
export const titleOf = (said: string): string => {
  const words = said
    .slice(0, 2000)
    .replaceAll(/(^|\s)\/(?:(?:show|hide)-[a-z]+|stream-status)(?=\s|$)/g, "$1")
    .replaceAll(/[`*_#>"“”|<{}[\]]+/g, " ")
    .trim()
    .split("\n", 1)
    .join()
    .split(/\s+/)
    .filter((word) => word !== "");
  const title = Array.from(words.slice(0, mostWords).join(" ")).slice(0, mostCharacters).join("");
  return title.replace(/[\s.,;:!?-]+$/, "") || "New chat";
};
