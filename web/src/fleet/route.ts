import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = {
  path: "/fleet",
  load: () => import("./page.tsx"),
  navigation: { title: "Fleet", order: 4, key: "f" },
};
