import type { Chat } from "../chat/chat.ts";
import { ServiceError } from "../contract/errors.ts";
import { json } from "../http/reply.ts";
import type { Route } from "../http/route.ts";

/** `GET /v1/models` and `GET /v1/models/{id}`: what `model` of a request may be. */
export const modelsRoutes = ({ models }: Pick<Chat, "models">): Route[] => {
  // The public format wants a time; what is served is there since the service is.
  const created = Math.floor(Date.now() / 1000);
  const described = (id: string) => ({ id, object: "model", created, owned_by: "service" });
  return [
    {
      method: "get",
      path: "/v1/models",
      handle: async () => json(200, { object: "list", data: (await models()).map(described) }),
    },
    {
      method: "get",
      path: "/v1/models/{id}",
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
