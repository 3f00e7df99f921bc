import type { Settings } from "../config/variables.ts";
import { operations } from "../contract/operations.ts";
import type { AppDependencies } from "../http/app.ts";
import { createApp, serveRoutes } from "../http/app.ts";
import { otlpRoutes, type Receiver } from "../http/otlp-routes.ts";
import { listen, listenOnSocket } from "../http/server.ts";
import { transcriptsRoute } from "../http/transcripts-route.ts";
import { answerBy, type Answer } from "../mcp/answer.ts";
import { mcpRoutes } from "../mcp/routes.ts";
import { completionEventsRoute } from "../openai/completion-events-route.ts";
import { openaiRoutes } from "../openai/routes.ts";
import type { AgentMode } from "./agent-mode.ts";
import { onLoopback, socketPath, stateDirectory } from "./instance-lock.ts";
import { mcpProgram } from "./mcp-program.ts";

export type Doors = {
  /** URL of the service; null: it does not listen on HTTP. */
  url: string | null;
  /** Where agents on this machine send telemetry, over OTLP; null: not here. */
  otlpUrl: string | null;
  /** Answers the client on stdin and stdout; null: there is none. */
  answer: Answer | null;
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

/** How clients reach the service: over HTTP; or on stdin and stdout, and later processes over a Unix socket. */
export const openDoors = async (deps: Dependencies): Promise<Doors> => {
  const { handlers, settings, log, closing, agentMode, receiver } = deps;
  const answer = answerBy(operations, handlers, log);
  const apiKeys = [settings.otlpToken ?? [], settings.apiKeys].flat();
  const telemetryRoutes = receiver === null ? [] : otlpRoutes({ ...receiver, apiKeys });
  if (settings.transport === "stdio") {
    const isNeeded = receiver !== null && settings.otelEndpoint === null;
    const local = { ...settings, host: "127.0.0.1", port: 0 };
    const server = isNeeded
      ? await listen(serveRoutes(telemetryRoutes, { ...deps, settings: local }), local)
      : null;
    // Only this user can open the socket: no key is asked for.
    const app = createApp({ ...deps, settings: { ...local, apiKeys: [] } });
    const socket = await listenOnSocket(app, socketPath(stateDirectory(settings)));
    return {
      url: null,
      otlpUrl: server && `${onLoopback(server.url)}/otlp`,
      answer,
      close: async (graceMs) => {
        await socket.close(graceMs);
        await server?.close(graceMs);
      },
    };
  }
  const newServer = async () =>
    (await import("../mcp/server.ts")).createServerFactory({
      program: mcpProgram({ agent: settings.agentMode }),
      answer,
    });
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
    otlpUrl: receiver && `${onLoopback(server.url)}/otlp`,
    answer: null,
    close: server.close,
  };
};

/** Where others reach the service: SERVICE_ADDRESS, else where it listens; null: it listens on all addresses. */
export const publicAddress = ({ address }: Pick<Settings, "address">, url: string | null): string | null =>
  address ?? (url === null || onLoopback(url) !== url ? null : url);
