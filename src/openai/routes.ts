import type { Chat, ChatTurn } from "../chat/chat.ts";
import { ServiceError } from "../contract/errors.ts";
import { agentModeOff, json, type Route, type Reply, type Call } from "../http/route.ts";
import { cancelDescription, modelDescription, modelsDescription, chatDescription } from "./openapi.ts";
import { publicReply } from "./public-failure.ts";
import { readJsonObjectBytes } from "../http/body.ts";
import { eventStream, streamed } from "../http/event-stream.ts";
import type { Log } from "../lib/log.ts";
import { asHeader, headerText } from "./caller-headers.ts";
import { chatRequestOf, checkedBody, refuseUnsupported } from "./chat-request.ts";
import { ignoredParameters } from "./request-schema.ts";
import { sideAnswer } from "./side-requests.ts";

type Dependencies = Omit<ChatRouteDependencies, "chat"> & {
  /** Null: agent mode is off, and each path says so. */
  chat: Chat | null;
};

export const openaiRoutes = ({ chat, ...deps }: Dependencies): Route[] => {
  const routes =
    chat === null
      ? paths.flatMap((path) => refusals(path, (method) => agentModeOff(`${method.toUpperCase()} ${path}`)))
      : [chatRoute({ ...deps, chat }), ...modelsRoutes(chat), cancelRoute(chat)];
  return [...routes, ...elsewhereRoutes].map((route) => ({
    ...route,
    crossOrigin: true,
    failures: { under: "/v1/", reply: publicReply },
  }));
};

const paths = ["/v1/chat/completions", "/v1/models", "/v1/models/{id}", "/v1/chat/completions/{id}/cancel"];

/** For every method: that another one exists would not help. */
const refusals = (path: string, refusal: (method: "get" | "post") => ServiceError): Route[] =>
  (["get", "post"] as const).map((method) => ({
    method,
    path,
    refusing: true,
    handle: () => {
      throw refusal(method);
    },
  }));

/** Paths of other APIs, and of this one with a wrong base address, by what a client wants there. */
const elsewhere = {
  "POST /v1/chat/completions": `/v1/responses /responses /v1/messages /v1/messages/count_tokens /v1/completions
    /v1/chat /chat/completions /v1/v1/chat/completions /api/chat /api/generate /api/v1/chat/completions`,
  "GET /v1/models": "/models /models/{id} /v1/v1/models /api/models /api/tags /api/v1/models",
};

const elsewhereRoutes = Object.entries(elsewhere).flatMap(([ours, others]) =>
  others
    .split(/\s+/)
    .flatMap((path) =>
      refusals(path, () => new ServiceError("not_found", `There is no such address here; use ${ours}`)),
    ),
);

/** `GET /v1/models` and `GET /v1/models/{id}`: valid values of `model`. */
const modelsRoutes = ({ models }: Pick<Chat, "models">): Route[] => {
  // The public format requires a time: the service's start serves.
  const created = Math.floor(Date.now() / 1000);
  const described = (id: string) => ({ id, object: "model", created, owned_by: "service" });
  return [
    {
      method: "get",
      path: "/v1/models",
      openapi: modelsDescription,
      handle: async () => json(200, { object: "list", data: (await models()).map(described) }),
    },
    {
      method: "get",
      path: "/v1/models/{id}",
      openapi: modelDescription,
      handle: async ({ path: { id = "" } }) => {
        const ids = await models();
        if (ids.includes(id)) return json(200, described(id));
        throw new ServiceError(
          "model_not_found",
          `There is no model ${JSON.stringify(id.slice(0, 100))}; GET /v1/models lists them`,
        );
      },
    },
  ];
};

/** `POST /v1/chat/completions/{id}/cancel`: stops an answer in flight, by the id in its chunks. */
const cancelRoute = ({ cancel }: Pick<Chat, "cancel">): Route => ({
  method: "post",
  path: "/v1/chat/completions/{id}/cancel",
  openapi: cancelDescription,
  handle: ({ path: { id = "" }, principal }) => {
    if (cancel(id, principal)) return json(200, { id, object: "chat.completion.cancelled", cancelled: true });
    throw new ServiceError(
      "not_found",
      `No answer ${JSON.stringify(id.slice(0, 100))} of yours is under way in this instance; it may have ended`,
    );
  },
});

type ChatRouteDependencies = {
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

const chatRoute = (deps: ChatRouteDependencies): Route => ({
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
