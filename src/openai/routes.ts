import type { Chat } from "../chat/chat.ts";
import { ServiceError } from "../contract/errors.ts";
import { preflightRoute } from "../http/access.ts";
import { agentModeOff, json, type Route } from "../http/route.ts";
import { chatRoute, type ChatRouteDependencies } from "./chat-route.ts";
import { cancelDescription, modelDescription, modelsDescription } from "./openapi.ts";
import { publicReply } from "./public-failure.ts";

type Dependencies = Omit<ChatRouteDependencies, "chat"> & {
  /** Null: agent mode is off, and each path says so. */
  chat: Chat | null;
};

/** The chat completions routes, for `createApp`. */
export const openaiRoutes = ({ chat, ...deps }: Dependencies): Route[] => {
  const answering =
    chat === null
      ? paths.flatMap(([path]) => refusing(path))
      : [chatRoute({ ...deps, chat }), ...modelsRoutes(chat), cancelRoute(chat)];
  // Browsers ask before they send a key or JSON.
  const preflights = paths.map(([path, method]) => preflightRoute(path, [method]));
  return [...answering, ...preflights].map((route) => ({
    ...route,
    crossOrigin: true,
    failures: { under: "/v1/", reply: publicReply },
  }));
};

const paths = [
  ["/v1/chat/completions", "POST"],
  ["/v1/models", "GET"],
  ["/v1/models/{id}", "GET"],
  ["/v1/chat/completions/{id}/cancel", "POST"],
] as const;

/** For every method: that another one exists would not help. */
const refusing = (path: string): Route[] =>
  (["get", "post"] as const).map((method) => ({
    method,
    path,
    refusing: true,
    handle: () => {
      throw agentModeOff(`${method.toUpperCase()} ${path}`);
    },
  }));

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
