import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = { path: "/jobs/:id", load: () => import("./page.tsx") };
