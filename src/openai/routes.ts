import type { Chat } from "../chat/chat.ts";
import { agentModeOff } from "../http/reply.ts";
import { preflightRoute } from "../http/access.ts";
import type { Route } from "../http/route.ts";
import { cancelRoute } from "./cancel-route.ts";
import { chatRoute, type ChatRouteDependencies } from "./chat-route.ts";
import { modelsRoutes } from "./models-routes.ts";
import { descriptions } from "./openapi.ts";
import { publicReply } from "./public-failure.ts";

type Dependencies = Omit<ChatRouteDependencies, "chat"> & {
  /** Null: agent mode is off, and each path says so. */
  chat: Chat | null;
};

/** The chat completions door, to be handed to `createApp`. */
export const openaiRoutes = ({ chat, ...deps }: Dependencies): Route[] => {
  const routes = doorRoutes({ ...deps, chat: chat ?? nobody });
  const answering = chat === null ? routes.flatMap(refusing) : routes.map(described);
  return [...answering, ...preflights].map((route) => ({
    ...route,
    crossOrigin: true,
    failures: { under: "/v1/", reply: publicReply },
  }));
};

const doorRoutes = (deps: ChatRouteDependencies & { chat: Chat }): Route[] => [
  chatRoute(deps),
  ...modelsRoutes(deps.chat),
  cancelRoute(deps.chat),
];

/** Browsers ask before they send a key or JSON. */
const preflights = [
  preflightRoute("/v1/chat/completions", ["POST"]),
  preflightRoute("/v1/models", ["GET"]),
  preflightRoute("/v1/models/{id}", ["GET"]),
  preflightRoute("/v1/chat/completions/{id}/cancel", ["POST"]),
];

const described = (route: Route): Route => {
  const openapi = descriptions.get(`${route.method} ${route.path}`);
  return { ...route, ...(openapi !== undefined && { openapi }) };
};

/** Whatever the method: that the path knows another one is of no use. */
const refusing = ({ path }: Route): Route[] =>
  (["get", "post"] as const).map((method) => ({
    method,
    path,
    refusing: true,
    handle: () => {
      throw agentModeOff(`${method.toUpperCase()} ${path}`);
    },
  }));

/** Stands where no chat is; it is never asked. */
const nobody: Chat = {
  models: async () => [],
  begin: () => Promise.reject(agentModeOff("The chat")),
  answer: () => {
    throw agentModeOff("The chat");
  },
  cancel: () => false,
};
