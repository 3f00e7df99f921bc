import { ServiceError } from "../contract/errors.ts";
import { RequestFault } from "./public-failure.ts";

/** First of these that says something counts. */
const conversationHeaders = ["x-conversation-id", "x-openwebui-chat-id", "x-librechat-conversation-id"];
const userHeaders = ["x-user-id", "x-openwebui-user-id"];

/**
 * The id by which the caller knows the conversation, if a header says one.
 * @throws ServiceError `invalid_request`
 */
export const conversationHeader = (headers: Headers): string | null => idIn(headers, conversationHeaders);

/**
 * Who asks, as the caller says.
 * @throws ServiceError `invalid_request`
 */
export const userHeader = (headers: Headers): string | null => idIn(headers, userHeaders);

/**
 * The id in `metadata.conversation_id`.
 * @throws RequestFault
 */
export const conversationInMetadata = (value: string | null | undefined): string | null => {
  const id = meant(value);
  if (id !== null && !isId(id)) throw new RequestFault("metadata.conversation_id", idForm);
  return id;
};

/** What a header says; null: nothing, or a template that the client has not filled in. */
export const headerText = (headers: Headers, name: string): string | null => {
  const value = headers.get(name);
  // Header values are bytes, read as latin1: back to bytes, so that an id is the same in a header and in the body.
  return meant(value === null ? null : Buffer.from(value, "latin1").toString("utf8"));
};

/** `id` as a header's value. */
export const asHeader = (id: string): string => Buffer.from(id, "utf8").toString("latin1");

/** Whether the client library says that it asks again. */
export const isRetry = (headers: Headers): boolean =>
  /^[1-9]\d{0,8}$/.test(headers.get("x-stainless-retry-count") ?? "");

const idIn = (headers: Headers, names: readonly string[]): string | null => {
  for (const name of names) {
    const id = headerText(headers, name);
    if (id === null || passing[name]?.test(id)) continue;
    if (!isId(id)) throw new ServiceError("invalid_request", `${name}: ${idForm}`);
    return id;
  }
  return null;
};

/** What UIs say of chats that have no id (yet): Open WebUI of those it does not keep, LibreChat of new ones. */
const passing: Partial<Record<string, RegExp>> = {
  "x-openwebui-chat-id": /^local(:|$)/,
  "x-librechat-conversation-id": /^new$/,
};

const meant = (value: string | null | undefined): string | null => {
  const text = (value ?? "").trim();
  return text === "" || /\{\{.*\}\}/.test(text) ? null : text;
};

const isId = (id: string): boolean => id.length <= 256 && !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFFD]/u.test(id);

const idForm = "must have 1 to 256 printable characters";
