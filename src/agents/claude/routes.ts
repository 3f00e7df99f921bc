import type { AllowedHost } from "../../lib/allowed-hosts.ts";
import type { Meter } from "../../sandbox/meter.ts";
import type { Route } from "../../sandbox/route.ts";
import type { Entered } from "../../sandbox/sandbox.ts";
import type { ClaudeSettings } from "./settings.ts";

export type TelemetryReceiver = { endpoint: string; token: string };

type Given = {
  settings: ClaudeSettings;
  /** The service's own receiver of telemetry; null: there is none. */
  receiver: TelemetryReceiver | null;
  /** Origin of the service's own address, if the run's MCP configuration names it; null: it does not. */
  own: string | null;
  /** Stands inside for each credential. */
  word: string;
  /** Reads what the model answers. Absent: nothing does. */
  meter?: Meter;
};

/** How a sandboxed agent reaches what the service itself sets up for it. */
export type WaysOut = {
  routes: Route[];
  /** What cannot go by a route. */
  hosts: AllowedHost[];
  /** The same as given, with the addresses and credentials that stand inside. */
  inside: Pick<Given, "settings" | "receiver">;
};

/** The ways to the model, to whoever takes telemetry and to the service's own MCP, with what must stay outside. */
export const waysOut = (given: Given): WaysOut => {
  const { settings, receiver, own, word, meter } = given;
  const telemetry = settings.otelEnabled ? telemetryWay(settings, receiver) : null;
  const isByRoute = telemetry !== null && "target" in telemetry;
  return {
    routes: [
      { ...modelRoute(settings), ...(meter && { meter }) },
      ...(isByRoute ? [telemetry] : []),
      ...(own === null ? [] : [{ paths: /^\/(?:mcp|sse|messages)$/, target: new URL(own), headers: null }]),
    ],
    hosts: telemetry === null || isByRoute ? [] : [telemetry],
    inside: {
      settings: {
        ...settings,
        ...standIns(settings, word),
        ...(isByRoute && settings.otelEndpoint !== null && { otelEndpoint: telemetryInside }),
      },
      receiver: receiver && { endpoint: telemetryInside, token: word },
    },
  };
};

/** How the CLI is told where the model is. */
export const modelVariables = ({ origin, socket }: Entered["model"]): Record<string, string> => ({
  ANTHROPIC_BASE_URL: origin,
  ...(socket !== null && { ANTHROPIC_UNIX_SOCKET: socket }),
});

/** A name that no host can have. The door takes it for the service. */
const serviceInside = "http://service.invalid";
const telemetryInside = `${serviceInside}/otlp`;

/** All that both versions of the CLI ask for, and the models. Its credential opens more: files and batches of others. */
const takes = /^(?:POST \/v1\/messages(?:\/count_tokens)?|GET \/v1\/models(?:\/[^/]+)?)$/;

/** As the CLI does without a sandbox: its long-lived token goes to no other address, and with no other credential. */
export const modelRoute = ({
  agentOauthToken,
  modelBaseUrl,
  modelAuthToken,
  modelApiKey,
}: Pick<ClaudeSettings, "agentOauthToken" | "modelBaseUrl" | "modelAuthToken" | "modelApiKey">): Route => {
  const paths = /^\/v1\//;
  const usual = "https://api.anthropic.com";
  if (agentOauthToken !== null)
    return { paths, takes, target: new URL(usual), headers: { authorization: `Bearer ${agentOauthToken}` } };
  return {
    paths,
    takes,
    target: new URL(modelBaseUrl ?? usual),
    headers: {
      ...(modelAuthToken !== null && { authorization: `Bearer ${modelAuthToken}` }),
      ...(modelApiKey !== null && { "x-api-key": modelApiKey }),
    },
  };
};

/** The CLI asks for a credential, and chooses its headers by the kind. */
const standIns = ({ agentOauthToken, modelAuthToken, modelApiKey }: ClaudeSettings, word: string) => {
  const kind =
    agentOauthToken !== null
      ? "agentOauthToken"
      : modelApiKey !== null && modelAuthToken === null
        ? "modelApiKey"
        : "modelAuthToken";
  return { agentOauthToken: null, modelAuthToken: null, modelApiKey: null, [kind]: word };
};

/** The named endpoint before the service's own receiver. gRPC is no HTTP/1: it goes by CONNECT. */
const telemetryWay = (
  { otelEndpoint, otelProtocol }: ClaudeSettings,
  receiver: TelemetryReceiver | null,
): Route | AllowedHost | null => {
  const paths = /^\/otlp(\/v1\/(?:traces|metrics|logs))$/;
  if (otelEndpoint === null)
    return (
      receiver && { paths, target: new URL(receiver.endpoint), headers: { "x-api-key": receiver.token } }
    );
  const target = new URL(otelEndpoint);
  if (otelProtocol === "http") return { paths, target, headers: {} };
  const port = Number(target.port) || (target.protocol === "https:" ? 443 : 80);
  return { name: target.hostname.replaceAll(/[[\]]/g, ""), port, local: true };
};

/**
 * An MCP configuration in which the service's own address is the one that it has inside. `origins`: where the service is
 * reached. Null: it names none of them.
 */
export const ownMcpInside = (text: string, origins: readonly string[]): string | null => {
  let isNamed = false;
  const inside = JSON.stringify(
    JSON.parse(text, (key, value: unknown) => {
      if (key !== "url" || typeof value !== "string" || !URL.canParse(value)) return value;
      const { origin, pathname, search } = new URL(value);
      const named = [origin, origin.replace("//localhost", "//127.0.0.1")];
      if (!origins.some((each) => named.includes(each)) || !/^\/(mcp|sse)$/.test(pathname)) return value;
      isNamed = true;
      return `${serviceInside}${pathname}${search}`;
    }),
  );
  return isNamed ? inside : null;
};
