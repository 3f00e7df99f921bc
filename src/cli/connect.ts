import { createClient } from "../client/client.ts";
import type { Client } from "../client/client.ts";
import { loadSettings } from "../config/settings.ts";
import { baseUrlOf } from "./address.ts";

/** The service that the settings name, with the key they hold. Nothing is sent yet. */
export const connect = (env: NodeJS.ProcessEnv = process.env): { client: Client; baseUrl: string } => {
  const { settings } = loadSettings({ env, role: "client" });
  const baseUrl = baseUrlOf(settings);
  return { client: createClient({ baseUrl, apiKey: settings.apiKey ?? settings.apiKeys[0] }), baseUrl };
};
