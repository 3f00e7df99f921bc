import type { Chat } from "../chat/chat.ts";
import { ServiceError } from "../contract/errors.ts";
import { json } from "../http/reply.ts";
import type { Route } from "../http/route.ts";

/** `POST /v1/chat/completions/{id}/cancel`: stops an answer under way, by the id in its chunks. */
export const cancelRoute = ({ cancel }: Pick<Chat, "cancel">): Route => ({
  method: "post",
  path: "/v1/chat/completions/{id}/cancel",
  handle: ({ path: { id = "" }, principal }) => {
    if (cancel(id, principal)) return json(200, { id, object: "chat.completion.cancelled", cancelled: true });
    throw new ServiceError(
      "not_found",
      `No answer ${JSON.stringify(id.slice(0, 100))} of yours is under way in this instance; it may have ended`,
    );
  },
});
