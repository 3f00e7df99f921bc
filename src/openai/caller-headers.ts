import { ServiceError } from "../contract/errors.ts";
import { RequestFault } from "./public-failure.ts";

/** The id of the conversation, if a header names one. @throws ServiceError `invalid_request` */
export const conversationHeader = (headers: Headers): string | null =>
  idIn(headers, ["x-conversation-id", "x-openwebui-chat-id", "x-librechat-conversation-id"]);

/** @throws ServiceError `invalid_request` */
export const userHeader = (headers: Headers): string | null =>
  idIn(headers, ["x-user-id", "x-openwebui-user-id"]);

/** @throws RequestFault */
export const conversationInMetadata = (value: string | null | undefined): string | null => {
  const id = filledIn(value);
  if (id !== null && !isId(id)) throw new RequestFault("metadata.conversation_id", idForm);
  return id;
};

/** A header's value; null: none, or a template that the client did not fill in. */
export const headerText = (headers: Headers, name: string): string | null => {
  const value = headers.get(name);
  // Header values arrive as latin1: decode them as UTF-8, so that an id is the same in a header and in the body.
  return filledIn(value === null ? null : Buffer.from(value, "latin1").toString("utf8"));
};

export const asHeader = (id: string): string => Buffer.from(id, "utf8").toString("latin1");

export const isRetry = (headers: Headers): boolean =>
  /^[1-9]\d{0,8}$/.test(headers.get("x-stainless-retry-count") ?? "");

/** The first header with a value counts. */
const idIn = (headers: Headers, names: readonly string[]): string | null => {
  for (const name of names) {
    const id = headerText(headers, name);
    if (id === null || placeholders[name]?.test(id)) continue;
    if (!isId(id)) throw new ServiceError("invalid_request", `${name}: ${idForm}`);
    return id;
  }
  return null;
};

/** Ids that UIs send for chats without an id: Open WebUI for temporary ones, LibreChat for new ones. */
const placeholders: Partial<Record<string, RegExp>> = {
  "x-openwebui-chat-id": /^local(:|$)/,
  "x-librechat-conversation-id": /^new$/,
};

const filledIn = (value: string | null | undefined): string | null => {
  const text = (value ?? "").trim();
  return text === "" || /\{\{.*\}\}/.test(text) ? null : text;
};

const isId = (id: string): boolean => id.length <= 256 && !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\uFFFD]/u.test(id);

const idForm = "must have 1 to 256 printable characters";
