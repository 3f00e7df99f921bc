import type { IncomingMessage, ServerResponse } from "node:http";
import { json } from "node:stream/consumers";
import { type Answer, errorBody, toolUse } from "./answer.ts";
import { type Conversation, countTokens, readConversation } from "./conversation.ts";
import { parseDirective, scenarios } from "./scenarios.ts";
import { streamMessage, wholeMessage } from "./stream.ts";

export type Script = (conversation: Conversation) => Answer | null;

export type RecordedRequest = {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  /** Of a POST: the parsed JSON. */
  body: unknown;
};

type Setup = {
  requests: RecordedRequest[];
  scripts: Script[];
  token: string | undefined;
  defaultScenario: string;
  /** Aborted when the server closes. */
  signal: AbortSignal;
};

const keptRequests = 100;

export const createListener = ({ requests, scripts, token, defaultScenario, signal }: Setup) => {
  const countAsked = createCounter();
  let number = 0;

  const decide = (conversation: Conversation): Answer => {
    for (const script of scripts) {
      const answer = script(conversation);
      if (answer) return answer;
    }
    const { name, parameters } = parseDirective(conversation.prompt);
    const scenario = scenarios[name === "auto" ? defaultScenario : name];
    if (!scenario)
      throw new Error(`there is no scenario ${name}; there are ${Object.keys(scenarios).join(", ")}`);
    return scenario(
      conversation,
      parameters,
      countAsked(`${String(conversation.headers["x-claude-code-session-id"])} ${conversation.prompt}`),
    );
  };

  const answerMessages = async (
    request: IncomingMessage,
    response: ServerResponse,
    body: unknown,
  ): Promise<void> => {
    const conversation = readConversation(body, request.headers);
    const answer = withReport(conversation, decide(conversation));
    if (answer.kind === "silence") return;
    if (answer.kind === "error") return sendError(response, answer);
    const { model, tokens } = conversation;
    const envelope = { model, inputTokens: tokens.last, cachedTokens: tokens.before };
    if (!conversation.stream) return sendJson(response, 200, wholeMessage(answer, envelope));
    const left = new AbortController();
    response.once("close", () => left.abort());
    await streamMessage(response, answer, { envelope, signal: AbortSignal.any([signal, left.signal]) });
  };

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    number += 1;
    response.setHeader("request-id", `req_fake_${number}`);
    const { method = "", url = "", headers } = request;
    const body: unknown = method === "POST" ? await json(request) : null;
    requests.push({ method, url, headers, body });
    if (requests.length > keptRequests) requests.shift();
    if (method === "HEAD" || method === "GET") return void response.writeHead(url === "/" ? 200 : 404).end();
    if (
      token !== undefined &&
      headers.authorization !== `Bearer ${token}` &&
      headers["x-api-key"] !== token
    ) {
      return sendError(response, { kind: "error", status: 401, message: "invalid x-api-key" });
    }
    const { pathname } = new URL(url, "http://localhost");
    if (pathname === "/v1/messages/count_tokens")
      return sendJson(response, 200, { input_tokens: countTokens(body) });
    if (pathname === "/v1/messages") return await answerMessages(request, response, body);
    sendError(response, { kind: "error", status: 404, message: `not found: ${pathname}` });
  };

  return (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch((error: unknown) => {
      // A reader that left is no failure; everything else is a mistake in the script, answered with a 400, which is not retried.
      if (response.headersSent || response.destroyed) return void response.destroy();
      sendError(response, {
        kind: "error",
        status: 400,
        message: `fake model: ${error instanceof Error ? error.message : String(error)}`,
      });
    });
  };
};

/** A good model reports what came of its work where it is asked to: `report: {json}` in the prompt, or `report: none`. */
const withReport = ({ tools, results, prompt }: Conversation, answer: Answer): Answer => {
  if (!tools.includes("StructuredOutput") || answer.kind !== "message" || answer.interrupted) return answer;
  const last = answer.blocks.at(-1);
  const [, told] = /\breport:\s*(none|\{.*\})/.exec(prompt) ?? [];
  if (last?.type !== "text" || answer.stopReason !== undefined || told === "none") return answer;
  const usual = { outcome: results.length > 0 ? "changed" : "no_change", summary: last.text.slice(0, 500) };
  const report = told === undefined ? usual : (JSON.parse(told) as typeof usual);
  return { ...answer, blocks: [...answer.blocks, toolUse("StructuredOutput", report)] };
};

const sendError = (response: ServerResponse, error: Extract<Answer, { kind: "error" }>): void => {
  for (const [name, value] of Object.entries(error.headers ?? {})) response.setHeader(name, value);
  sendJson(response, error.status, errorBody(error, String(response.getHeader("request-id"))));
};

const sendJson = (response: ServerResponse, status: number, body: unknown): void =>
  void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));

/** How often a key was asked for before; the oldest keys are forgotten. */
const createCounter = () => {
  const counts = new Map<string, number>();
  return (key: string): number => {
    const before = counts.get(key) ?? 0;
    counts.delete(key);
    counts.set(key, before + 1);
    const [oldest] = counts.keys();
    if (counts.size > 1000 && oldest !== undefined) counts.delete(oldest);
    return before;
  };
};
