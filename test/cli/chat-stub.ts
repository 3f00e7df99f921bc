import type { ServerResponse } from "node:http";
import { json, stubService, type Stub } from "./stub-service.ts";

/** What the stand-in does with the connection of an answer. */
export type Reply = (write: (piece: object | string) => void, response: ServerResponse) => void;

export type ChatStub = Stub & {
  env: Record<string, string>;
  /** Answers the next and all later messages. */
  reply: Reply;
  /** Bodies of the messages that came. */
  asked: () => { messages: { content: string }[]; [field: string]: unknown }[];
  /** How many answers have lost their reader. */
  gone: number;
};

const chatPath = "/v1/chat/completions";

/** A chunk as the service sends them. */
export const chunk = (delta: object, tags: object = {}): object => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "agent",
  choices: [{ index: 0, delta, finish_reason: null, ...tags }],
});

export const role = chunk({ role: "assistant" });
export const stop = chunk({}, { finish_reason: "stop" });
export const text = (content: string): object => chunk({ content });

/** A whole answer. */
export const answer =
  (...chunks: object[]): Reply =>
  (write, response) => {
    for (const each of [role, ...chunks, stop, "[DONE]"]) write(each);
    response.end();
  };

/** The beginning of an answer that does not go on. */
export const hanging =
  (...chunks: object[]): Reply =>
  (write) => {
    for (const each of [role, ...chunks]) write(each);
  };

/** A service in agent mode, as far as `svc chat` sees it. Killed at the end of the test file. */
export const chatStub = async (): Promise<ChatStub> => {
  const stub = await stubService({
    "GET /v1/models": json(200, { object: "list", data: [{ id: "agent" }, { id: "haiku" }] }),
    [`POST ${chatPath}/chatcmpl-1/cancel`]: json(200, { success: true }),
    [`POST ${chatPath}`]: (_request, response) => {
      const begin = (): void => {
        if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
      };
      response.on("close", () => (state.gone += response.writableFinished ? 0 : 1));
      state.reply((piece) => {
        begin();
        response.write(`: ping\n\ndata: ${typeof piece === "string" ? piece : JSON.stringify(piece)}\n\n`);
      }, response);
    },
  });
  const state: ChatStub = Object.assign(stub, {
    env: { SERVICE_PORT: String(stub.port) },
    reply: answer(text("Hello.")),
    asked: () =>
      stub.requests
        .filter(({ method, url }) => method === "POST" && url === chatPath)
        .map(({ body }) => JSON.parse(body) as ReturnType<ChatStub["asked"]>[number]),
    gone: 0,
  });
  return state;
};

/** A refusal in the public format. */
export const refusal =
  (status: number, code: string, message: string, headers: Record<string, string> = {}): Reply =>
  (_write, response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ error: { message, type: "api_error", param: null, code } }));
  };
