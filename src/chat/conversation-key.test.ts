import { expect, test } from "vitest";
import type { ChatRequest } from "./chat.ts";
import { conversationOf } from "./conversation-key.ts";

type Request = Pick<ChatRequest, "conversation" | "user" | "system" | "messages">;

const said = (text: string): Request["messages"] => [{ role: "user", content: [{ type: "text", text }] }];
const request = (over: Partial<Request> = {}): Request => ({
  conversation: null,
  user: null,
  system: [],
  messages: said("hello"),
  ...over,
});
const scope = { agent: "default", principal: "key-1" };
const keyOf = (over: Partial<Request> = {}, within = scope): string | undefined =>
  conversationOf(request(over), within, true)?.key;
const byId = { conversation: { id: "c1", source: "header" } } as const;

test("an id names the same conversation in a header and in the metadata", () => {
  expect(keyOf(byId)).toMatch(/^[0-9a-f]{64}$/);
  expect(keyOf({ conversation: { id: "c1", source: "metadata" } })).toBe(keyOf(byId));
});

test("the same id of another agent, key or user is another conversation", () => {
  const others = [
    keyOf(byId, { ...scope, agent: "other" }),
    keyOf(byId, { ...scope, principal: "key-2" }),
    keyOf({ ...byId, user: "u" }),
    keyOf(),
  ];
  expect(new Set([keyOf(byId), ...others]).size).toBe(5);
});

test("without an id the first system and the first user message name it, whatever follows them", () => {
  const more = [...said("hello"), { role: "assistant" as const, content: [] }, ...said("and now?")];
  expect(keyOf({ messages: more })).toBe(keyOf());
  expect(keyOf({ system: ["be brief", "today is Monday"] })).toBe(keyOf({ system: ["be brief"] }));
  expect(keyOf({ system: ["be brief"] })).not.toBe(keyOf());
  expect(keyOf({ messages: said("hallo") })).not.toBe(keyOf());
});

test("an image in the first message counts", () => {
  const withImage = (base64: string) =>
    keyOf({ messages: [{ role: "user", content: [{ type: "image", mediaType: "image/png", base64 }] }] });
  expect(withImage("aaaa")).not.toBe(withImage("bbbb"));
});

test("without an id there is no conversation when the fall-back to the first message is off", () => {
  expect(conversationOf(request(), scope, false)).toBeNull();
  expect(conversationOf(request(byId), scope, false)?.id).toBe("c1");
});
