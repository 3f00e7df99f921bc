import type { PageRoute } from "../routes.tsx";

export const route: PageRoute = {
  path: "/usage",
  load: () => import("./page.tsx"),
  navigation: { title: "Usage", order: 3, key: "u" },
};
