import { ServiceError } from "../contract/errors.ts";
import { failureOf, type Reply } from "./reply.ts";
import { methodsAt, type Call, type Route } from "./route.ts";

/**
 * What answers where no route does. Behind the boundary like everything else: without a key nobody learns which paths
 * there are. It speaks as the routes do that `failures` says it stands among.
 */
export const nothingThere = (
  routes: readonly Route[],
  scope: Route | undefined,
): Omit<Route, "method" | "path"> => {
  const { tell = failureOf } = scope?.failures ?? {};
  return {
    ...(scope?.failures !== undefined && { failures: scope.failures }),
    ...(scope?.crossOrigin !== undefined && { crossOrigin: scope.crossOrigin }),
    handle: ({ request }: Call): Reply => {
      const { pathname } = new URL(request.url);
      const shown = pathname.slice(0, 200);
      const allowed = methodsAt(routes, pathname);
      if (allowed.length === 0) throw new ServiceError("not_found", missing(routes, pathname, shown));
      const allow = allowed.join(", ");
      const reply = tell(
        new ServiceError(
          "method_not_allowed",
          `${shown} does not answer to ${request.method}, only to ${allow}`,
        ),
      );
      return { ...reply, headers: { ...reply.headers, allow } };
    },
  };
};

const missing = (routes: readonly Route[], pathname: string, shown: string): string => {
  const plain = pathname.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
  const isNear = plain !== pathname && methodsAt(routes, plain).length > 0;
  const way = isNear ? `did you mean ${plain.slice(0, 200)}?` : "GET /openapi.json lists what there is";
  return `There is nothing at ${shown}; ${way}`;
};
