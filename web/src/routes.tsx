import { lazy, type ComponentType } from "react";
import type { Client } from "../../src/client/client.ts";

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

export const routes = Object.values(found).map((route) => ({ ...route, Page: lazy(route.load) }));

export const navigation = Object.values(found)
  .flatMap(({ path, navigation: entry, isThere }) => (entry ? [{ path, isThere, ...entry }] : []))
  .toSorted((one, other) => one.order - other.order);
