import { afterFile } from "../../test/cleanup.ts";
import type { Caller, Chat, ChatRequest, ChatTurn } from "../chat/chat.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { createTestApp } from "../http/app.fixture.ts";
import { listen } from "../http/server.ts";
import { openaiRoutes } from "./routes.ts";

type Options = {
  chat?: Partial<Chat> | null;
  apiKeys?: string[];
  stallSeconds?: number;
  sideRequests?: boolean;
  pingEveryMs?: number;
};

/** The chat completions door over a chat that answers "hello", on a free port. */
export const startDoor = async ({
  chat = {},
  apiKeys = [],
  stallSeconds = 120,
  sideRequests = true,
  pingEveryMs,
}: Options = {}) => {
  const asked: { request: ChatRequest; caller: Caller }[] = [];
  const prepared: string[] = [];
  const whole: Chat = {
    models: async () => ["helper", "sonnet", "openrouter/glm:free"],
    begin: async (request, caller) => {
      asked.push({ request, caller });
      return turnOf("hello");
    },
    answer: (_request, text) => {
      prepared.push(text);
      return { ...turnOf(text), conversation: null };
    },
    cancel: (id) => id === "chatcmpl-running",
    visibility: async () => everythingVisible,
    setVisibility: async () => everythingVisible,
    ...chat,
  };
  const log: unknown[] = [];
  const app = createTestApp({
    apiKeys,
    agentMode: chat !== null,
    routes: openaiRoutes({
      chat: chat === null ? null : whole,
      settings: { agentModeStallTimeout: stallSeconds, agentModeSideRequests: sideRequests },
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: (line: unknown) => void log.push(line) },
      pingEveryMs,
    }),
  });
  const server = await listen(app.app, { host: "127.0.0.1", port: 0 });
  afterFile(() => server.close(0));
  const post = (body: unknown, headers: Record<string, string> = {}, init: RequestInit = {}) =>
    fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
      ...init,
    });
  return { ...app, url: server.url, port: server.port, post, asked, prepared, log };
};

/** A turn that says `text` at once. */
export const turnOf = (text: string): ChatTurn => ({
  id: "chatcmpl-1",
  conversation: { source: "header", id: "chat é" },
  stream: async function* () {
    yield chunk("role");
    yield chunk(text);
    yield Buffer.from("data: [DONE]\n\n");
  },
  whole: async () => JSON.stringify({ object: "chat.completion", said: text }),
});

export const chunk = (text: string): Uint8Array => Buffer.from(`data: ${text}\n\n`);

export const saying = (text: unknown, more: object = {}) => ({
  model: "helper",
  messages: [{ role: "user", content: text }],
  ...more,
});

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve());
  });
