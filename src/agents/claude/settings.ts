import type { Settings } from "../../config/variables.ts";

/** What the adapter needs of the service's settings. */
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
