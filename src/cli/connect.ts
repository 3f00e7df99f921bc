import { isIPv6 } from "node:net";
import { createClient, type Client } from "../client/client.ts";
import { loadSettings } from "../config/settings.ts";
import { isLoopbackHost } from "../config/formats.ts";
import { widenNoProxy } from "../lib/no-proxy.ts";
import { usageError } from "./failure.ts";

/** A client for the service in the settings, with their key. Sends nothing yet. */
export const connect = (): Connection => {
  const { settings } = loadSettings({ env: process.env, role: "client" });
  const baseUrl = baseUrlOf(settings);
  const { hostname } = new URL(baseUrl);
  const isLocal = isLoopbackHost(hostname);
  if (isLocal) widenNoProxy(process.env, hostname);
  return {
    client: createClient({ baseUrl, apiKey: settings.apiKey ?? settings.apiKeys[0] }),
    baseUrl,
    isLocal,
    gitHost: settings.gitHost,
  };
};

export type Connection = {
  client: Client;
  baseUrl: string;
  /** The service is on this machine, and can read its files. */
  isLocal: boolean;
  /** The host of a repository that is named by owner and name alone. */
  gitHost: string;
};

/** Where to reach a service that listens on this address: on loopback if it listens on all addresses. */
export const baseUrlOf = ({ host, port }: { host: string; port: number }): string => {
  if (port === 0)
    throw usageError("SERVICE_PORT is 0, a free port: set it to the port that svc serve printed");
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const reachable = everywhere[bare] ?? bare;
  return `http://${isIPv6(reachable) ? `[${reachable}]` : reachable}:${port}`;
};

const everywhere: Record<string, string> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
