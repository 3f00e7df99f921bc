import type { Settings } from "../config/variables.ts";
import type { AppDependencies } from "../http/app.ts";
import { createApp } from "../http/app.ts";
import { listen } from "../http/server.ts";
import { answerBy } from "../mcp/answer.ts";
import { mcpRoutes } from "../mcp/routes.ts";
import { createServerFactory } from "../mcp/server.ts";
import { openStdio } from "../mcp/stdio.ts";
import { completionEventsRoute } from "../openai/completion-events-route.ts";
import { openaiRoutes } from "../openai/routes.ts";
import type { AgentMode } from "./agent-mode.ts";
import { mcpIdentity } from "./version.ts";

export type Doors = {
  /** URL of the service; null: it does not listen on HTTP. */
  url: string | null;
  /** Aborted when the only client has left (stdin has ended). Never for HTTP. */
  clientLeft: AbortSignal;
  /** Gives requests in flight `graceMs` to finish. */
  close: (graceMs: number) => Promise<void>;
};

type Dependencies = Omit<AppDependencies, "routes" | "settings"> & {
  settings: Settings;
  /** Null: it is off. */
  agentMode: Pick<AgentMode, "chat" | "bus"> | null;
};

/** How clients reach the service: over HTTP (REST, /mcp, /sse), or as the one client on stdin and stdout. */
export const openDoors = async (deps: Dependencies): Promise<Doors> => {
  const { handlers, settings, log, closing, agentMode } = deps;
  const parts = { agent: settings.agentMode };
  const mcp = { answer: answerBy(handlers, log), service: mcpIdentity, parts };
  if (settings.transport === "stdio")
    return { url: null, ...openStdio({ ...mcp, log, newRequestId: deps.newRequestId }) };
  const newServer = createServerFactory(mcp);
  const chatRoutes = [
    ...openaiRoutes({ chat: agentMode?.chat ?? null, settings, log }),
    ...(agentMode === null
      ? []
      : [completionEventsRoute({ ...deps, events: agentMode.bus, getCompletion: handlers.get_completion })]),
  ];
  const app = createApp({ ...deps, routes: [...mcpRoutes({ newServer, log, closing }), ...chatRoutes] });
  const server = await listen(app, settings);
  return { url: server.url, clientLeft: new AbortController().signal, close: server.close };
};
