import type { ComponentType } from "react";
import type { Client } from "../../src/client/client.ts";
import { late } from "./parts/late.tsx";

/** A page, as the `route.ts` of its folder describes it. */
export type PageRoute = {
  /** Below `/ui`; `:name` is a parameter of wouter. */
  path: string;
  load: () => Promise<{ default: ComponentType }>;
  /** Its entry in the navigation; absent: it has none. `order` counts from the left. */
  navigation?: { title: string; order: number; key: string };
  /** Whether this service has it; absent: always. Asked once. */
  isThere?: (client: Client) => Promise<boolean>;
};

const found = import.meta.glob<PageRoute>("./*/route.ts", { eager: true, import: "route" });

export const routes = Object.values(found).map((route) => ({ ...route, Page: late(route.load) }));

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

export const navigation = Object.values(found)
  .flatMap(({ path, navigation: entry, isThere }) => (entry ? [{ path, isThere, ...entry }] : []))
  .toSorted((one, other) => one.order - other.order);
