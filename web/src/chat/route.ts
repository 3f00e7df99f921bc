import { ClientError } from "../../../src/client/client-error.ts";
import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = {
  path: "/chat",
  load: () => import("./page.tsx"),
  navigation: { title: "Chat", order: 2, key: "c" },
  isThere: async (client) => {
    try {
      return (await client.chatModels()).length > 0;
    } catch (error) {
      if (error instanceof ClientError && error.status === 404) return false;
      throw error;
    }
  },
};
