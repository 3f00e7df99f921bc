import type { Settings } from "../../config/variables.ts";

/** The settings that the adapter needs. */
export type ClaudeSettings = Pick<
  Settings,
  | "agentCliBinary"
  | "agentCliFirstOutputTimeout"
  | "agentCliIdleTimeout"
  | "agentCliResultGrace"
  | "agentCliKillGrace"
  | "agentHome"
  | "agentEnv"
  | "agentOauthToken"
  | "modelAuthToken"
  | "modelApiKey"
  | "modelBaseUrl"
  | "podName"
  | "otelEnabled"
  | "otelEndpoint"
  | "otelProtocol"
  | "otelLogPrompts"
  | "otelLogToolDetails"
>;
