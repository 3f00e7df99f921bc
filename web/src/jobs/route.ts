import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = {
  path: "/jobs",
  load: () => import("./page.tsx"),
  navigation: { title: "Jobs", order: 1, key: "j" },
};
