import type { Settings } from "../config/variables.ts";
import { operations } from "../contract/operations.ts";
import type { AppDependencies } from "../http/app.ts";
import { createApp, serveRoutes } from "../http/app.ts";
import { otlpRoutes, type Receiver } from "../http/otlp-routes.ts";
import { listen } from "../http/server.ts";
import { transcriptsRoute } from "../http/transcripts-route.ts";
import { answerBy } from "../mcp/answer.ts";
import { mcpRoutes } from "../mcp/routes.ts";
import { createServerFactory } from "../mcp/server.ts";
import { openStdio } from "../mcp/stdio.ts";
import { completionEventsRoute } from "../openai/completion-events-route.ts";
import { openaiRoutes } from "../openai/routes.ts";
import type { AgentMode } from "./agent-mode.ts";
import { mcpProgram } from "./mcp-program.ts";
import { waitingUntil } from "./wait-for-job.ts";

export type Doors = {
  /** URL of the service; null: it does not listen on HTTP. */
  url: string | null;
  /** Where agents on this machine send telemetry, over OTLP; null: not here. */
  otlpUrl: string | null;
  /** Aborted when the only client has left (stdin has ended). Never for HTTP. */
  clientLeft: AbortSignal;
  /** Gives requests in flight `graceMs` to finish. */
  close: (graceMs: number) => Promise<void>;
};

type Dependencies = Omit<AppDependencies, "routes" | "settings"> & {
  settings: Settings;
  /** Null: it is off. */
  agentMode: Pick<AgentMode, "chat" | "bus"> | null;
  /** Of telemetry; null: it is off. */
  receiver: Receiver | null;
};

/** How clients reach the service: over HTTP (REST, /mcp, /sse), or as the one client on stdin and stdout. */
export const openDoors = async (deps: Dependencies): Promise<Doors> => {
  const { handlers, settings, log, closing, agentMode, receiver } = deps;
  const program = mcpProgram({ agent: settings.agentMode });
  const answer = answerBy(operations, handlers, log);
  const apiKeys = [settings.otlpToken ?? [], settings.apiKeys].flat();
  const telemetryRoutes = receiver === null ? [] : otlpRoutes({ ...receiver, apiKeys, log });
  if (settings.transport === "stdio") {
    const isNeeded = receiver !== null && settings.otelEndpoint === null;
    const local = { ...settings, host: "127.0.0.1", port: 0 };
    const server = isNeeded
      ? await listen(serveRoutes(telemetryRoutes, { ...deps, settings: local }), local)
      : null;
    const stdio = openStdio({
      program,
      newAnswer: (inputEnd) => waitingUntil(inputEnd, answer),
      log,
      newRequestId: deps.newRequestId,
    });
    return {
      url: null,
      otlpUrl: server && otlpUrl(server.url),
      clientLeft: stdio.clientLeft,
      close: async (graceMs) => {
        await stdio.close();
        await server?.close(graceMs);
      },
    };
  }
  const newServer = createServerFactory({ program, answer });
  const chatRoutes = [
    ...openaiRoutes({ chat: agentMode?.chat ?? null, settings, log }),
    ...(agentMode === null
      ? []
      : [completionEventsRoute({ ...deps, events: agentMode.bus, getCompletion: handlers.get_completion })]),
  ];
  const { bridgeUrl } = settings;
  const routes = [
    ...mcpRoutes({ newServer, log, closing }),
    ...chatRoutes,
    ...telemetryRoutes,
    ...(bridgeUrl === null ? [] : [transcriptsRoute({ bridgeUrl })]),
  ];
  const server = await listen(createApp({ ...deps, routes }), settings);
  return {
    url: server.url,
    otlpUrl: receiver && otlpUrl(server.url),
    clientLeft: new AbortController().signal,
    close: server.close,
  };
};

/** A service that listens on all addresses is reached on loopback. */
export const otlpUrl = (url: string): string => `${url.replace(everywhere, "//127.0.0.1:")}/otlp`;

/** Where others reach the service: SERVICE_ADDRESS, else where it listens; null: it listens on all addresses. */
export const publicAddress = ({ address }: Pick<Settings, "address">, url: string | null): string | null =>
  address ?? (url === null || everywhere.test(url) ? null : url);

const everywhere = /\/\/(0\.0\.0\.0|\[::\]):/;
