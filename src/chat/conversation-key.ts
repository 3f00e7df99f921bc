import { hash } from "node:crypto";
import type { ChatRequest } from "./chat.ts";

export type Conversation = {
  /** 64 hex digits. */
  key: string;
  source: "header" | "metadata" | "hash";
  /** As the caller named it; null: found by its first message. */
  id: string | null;
};

/**
 * The conversation of a request: by the id that it names, else by its first message; null: a conversation of its own.
 * The same id with another key or user is another conversation.
 */
export const conversationOf = (
  {
    conversation,
    user,
    system,
    messages,
  }: Pick<ChatRequest, "conversation" | "user" | "system" | "messages">,
  { agent, principal }: { agent: string; principal: string },
  byHash: boolean,
): Conversation | null => {
  const key = (...rest: string[]): string => digest([agent, principal, user ?? "", ...rest]);
  if (conversation !== null)
    return { key: key("id", conversation.id), source: conversation.source, id: conversation.id };
  const first = messages.find(({ role }) => role === "user");
  if (!byHash || first === undefined) return null;
  const said = first.content.map((part) => (part.type === "text" ? part.text : part.base64));
  return { key: key("hash", system[0] ?? "", digest(said)), source: "hash", id: null };
};

const digest = (parts: readonly string[]): string => hash("sha256", JSON.stringify(parts));
