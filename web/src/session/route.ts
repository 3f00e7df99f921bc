import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = { path: "/transcripts/:id", load: () => import("./page.tsx") };
