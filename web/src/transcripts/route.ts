import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = {
  path: "/transcripts",
  load: () => import("./page.tsx"),
  navigation: { title: "Transcripts", order: 5, key: "t" },
  isThere: async (client) => (await client.ready()).transcripts,
};
