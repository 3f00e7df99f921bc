import type { Client } from "../../src/client/client.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { late } from "./parts/late.tsx";

type Route = {
  /** Below `/ui`; `:name` is a parameter of wouter. */
  path: string;
  /** Loaded when it is first shown. */
  Page: ReturnType<typeof late>;
  /** Its entry in the navigation; absent: it has none. `isThere`: whether this service has it, asked once. */
  navigation?: { title: string; keys: string; isThere?: (client: Client) => Promise<boolean> };
};

const hasChat = async (client: Client): Promise<boolean> => {
  try {
    return (await client.chatModels()).length > 0;
  } catch (error) {
    if (error instanceof ClientError && error.status === 404) return false;
    throw error;
  }
};

/** The pages, those of the navigation in its order. */
export const routes: readonly Route[] = [
  { path: "/jobs", Page: late(() => import("./jobs/page.tsx")), navigation: { title: "Jobs", keys: "j" } },
  { path: "/jobs/:id", Page: late(() => import("./job/page.tsx")) },
  {
    path: "/chat",
    Page: late(() => import("./chat/page.tsx")),
    navigation: { title: "Chat", keys: "c", isThere: hasChat },
  },
  { path: "/usage", Page: late(() => import("./usage/page.tsx")), navigation: { title: "Usage", keys: "u" } },
  { path: "/fleet", Page: late(() => import("./fleet/page.tsx")), navigation: { title: "Fleet", keys: "f" } },
  {
    path: "/transcripts",
    Page: late(() => import("./transcripts/page.tsx")),
    navigation: {
      title: "Transcripts",
      keys: "t",
      isThere: async (client) => (await client.ready()).transcripts,
    },
  },
  { path: "/transcripts/:id", Page: late(() => import("./session/page.tsx")) },
];

/** Whether the page was opened at a route's address. */
const isOpenedAt = (path: string): boolean => {
  const opened = location.pathname.split("/").slice(2);
  const parts = path.split("/").slice(1);
  return (
    parts.length === opened.length && parts.every((part, at) => part.startsWith(":") || part === opened[at])
  );
};

// Its files come while the rest begins. A failure is that of the page, which asks again.
for (const { path, Page } of routes) if (isOpenedAt(path)) void Page.begin().catch(() => undefined);
