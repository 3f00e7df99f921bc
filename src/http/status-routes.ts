import type { Health, Readiness } from "../contract/health.ts";
import { stranger } from "./authentication.ts";
import { json } from "./reply.ts";
import type { Route } from "./route.ts";

type Dependencies = {
  service: { name: string };
  readiness: () => Promise<Readiness>;
  metrics: () => Promise<{ contentType: string; body: string }>;
};

/** How the service is, for those who watch over it. */
export const statusRoutes = ({ service, readiness, metrics }: Dependencies): Route[] => {
  const health: Health = { status: "ok", service: service.name };
  return [
    { method: "get", path: "/health", open: true, handle: () => json(200, health) },
    {
      method: "get",
      path: "/ready",
      open: true,
      handle: async ({ principal }) => {
        const found = await readiness();
        const isTold = found.ready || principal !== stranger;
        const state = isTold ? found : { ready: false, reasons: ["Ask with a key to be told why"] };
        const reply = json(state.ready ? 200 : 503, state);
        return state.ready ? reply : { ...reply, headers: { ...reply.headers, "retry-after": "5" } };
      },
    },
    {
      method: "get",
      path: "/metrics",
      handle: async () => {
        const { contentType, body } = await metrics();
        return { status: 200, headers: { "content-type": contentType, "cache-control": "no-store" }, body };
      },
    },
  ];
};
