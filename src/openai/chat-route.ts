import { readJsonObjectBytes } from "../http/body.ts";
import type { Chat, ChatTurn } from "../chat/chat.ts";
import { eventStream, streamed } from "../http/event-stream.ts";
import type { Reply, Call, Route } from "../http/route.ts";
import type { Log } from "../lib/log.ts";
import { asHeader, headerText } from "./caller-headers.ts";
import { chatRequestOf, checkedBody, refuseUnsupported } from "./chat-request.ts";
import { chatDescription } from "./openapi.ts";
import { ignoredParameters } from "./request-schema.ts";
import { sideAnswer } from "./side-requests.ts";

export type ChatRouteDependencies = {
  chat: Pick<Chat, "begin" | "answer">;
  settings: {
    /** Seconds. */
    agentModeStallTimeout: number;
    agentModeSideRequests: boolean;
  };
  log: Log;
  /** How long a stream may be silent before it sends a ping; default 15 s. */
  pingEveryMs?: number | undefined;
};

/** The body contains images, and the whole conversation. */
const chatLimits = { bytes: 20 * 1_048_576, values: 100_000 };

/** `POST /v1/chat/completions`: a turn of the agent, whole or streamed. */
export const chatRoute = (deps: ChatRouteDependencies): Route => ({
  method: "post",
  path: "/v1/chat/completions",
  openapi: chatDescription,
  handle: async (call) => {
    const { object, bytes } = await readJsonObjectBytes(call.request, chatLimits);
    const body = checkedBody(object);
    const request = chatRequestOf(body, call.request.headers, bytes);
    const side = deps.settings.agentModeSideRequests
      ? sideAnswer(request, headerText(call.request.headers, "x-service-task"))
      : null;
    if (side === null) refuseUnsupported(body);
    const turn =
      side === null
        ? await deps.chat.begin(request, { principal: call.principal, requestId: call.requestId })
        : deps.chat.answer(request, side.text);
    call.note({ chat: turn.id, ...(side !== null && { side_request: side.kind }) });
    const headers = headersOf(turn, object, call);
    return request.stream ? stream(deps, { turn, headers, call }) : whole(turn, headers, call);
  },
});

type Answering = { turn: ChatTurn; headers: Record<string, string>; call: Call };

const stream = ({ settings, log, pingEveryMs }: ChatRouteDependencies, { turn, headers, call }: Answering) =>
  streamed(
    // The service's end does not cut the stream: the turn reports it.
    eventStream((signal) => turn.stream(signal), {
      endedBy: [call.request.signal],
      pingEveryMs,
      onFailure: (error) => log.error({ err: error, request_id: call.requestId }, "chat stream failed"),
      stall: {
        afterMs: settings.agentModeStallTimeout * 1000,
        disconnect: () => {
          call.note({ stalled: turn.id });
          call.disconnect();
        },
      },
    }),
    {
      "content-type": "text/event-stream; charset=utf-8",
      "cache-control": "no-cache, no-transform",
      ...headers,
    },
  );

const whole = async (turn: ChatTurn, headers: Record<string, string>, { request }: Call): Promise<Reply> => ({
  status: 200,
  headers: { "content-type": "application/json", "cache-control": "no-store", ...headers },
  // As bytes: with a text body Node would encode the headers in UTF-8 again.
  body: new TextEncoder().encode(await turn.whole(request.signal)),
});

const headersOf = (
  turn: ChatTurn,
  body: Record<string, unknown>,
  { request }: Call,
): Record<string, string> => {
  const { source, id } = turn.conversation ?? { source: null, id: null };
  const ignored = ignoredParameters(body);
  const asked = headerText(request.headers, "x-request-id");
  return {
    ...(source !== null && { "x-service-conversation-source": source }),
    ...(id !== null && { "x-conversation-id": asHeader(id) }),
    ...(ignored.length > 0 && { "x-service-ignored-params": ignored.join(", ") }),
    // X-Request-Id of an answer is the service's own, which is unique.
    ...(asked !== null && asked.length <= 256 && { "x-client-request-id": asHeader(asked) }),
  };
};
