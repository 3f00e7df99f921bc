import { agentName, disconnectPolicy, flag, integer, oneOf, path, text } from "../formats.ts";
import { permissionModes } from "../permission-modes.ts";
import { variable } from "../variable.ts";

/** The agent that answers chat completions. */
export const agentModeVariables = {
  agentMode: variable("AGENT_MODE", flag, "false", {
    meaning: "Also answer chat completions (`/v1/chat/completions`, `/completions`) with an agent",
  }),
  hubAgent: variable("HUB_AGENT", agentName.nullable(), null, {
    meaning:
      "Agent to load from the hub, by its directory `agents/{name}/`; unset: an agent `default` without a package",
  }),
  agentModeModel: variable("AGENT_MODE_MODEL", text, "sonnet", {
    meaning: "Model of an agent whose `agent.yml` names none",
  }),
  agentModeMaxTurns: variable("AGENT_MODE_MAX_TURNS", integer(1, 10_000), "80", {
    meaning: "Turns with the model in one answer, unless `agent.yml` says otherwise",
  }),
  agentModePermissionMode: variable(
    "AGENT_MODE_PERMISSION_MODE",
    oneOf(permissionModes),
    "bypassPermissions",
    { meaning: "Permission mode of an agent whose `agent.yml` names none" },
  ),
  agentModeTimeout: variable("AGENT_MODE_TIMEOUT", integer(1, 604_800), "3600", {
    meaning: "Seconds one answer may take, unless `agent.yml` or the request says otherwise",
  }),
  agentModeMaxConcurrent: variable("AGENT_MODE_MAX_CONCURRENT", integer(1, 10_000), "10", {
    meaning: "Answers in progress at once on this instance; beyond it 503",
  }),
  agentModeWarmProcesses: variable("AGENT_MODE_WARM_PROCESSES", integer(0, 100), "1", {
    meaning: "Agent processes started ahead of need, about 150 MB each; 0: none",
  }),
  agentModeKeepAlive: variable("AGENT_MODE_KEEP_ALIVE", integer(0, 86_400), "300", {
    meaning: "Seconds that a conversation's process stays in the idle pool after an answer; 0: it is ended",
  }),
  agentModeIdleProcesses: variable("AGENT_MODE_IDLE_PROCESSES", integer(0, 1000), "8", {
    meaning:
      "Size of the idle pool: processes that wait for their conversation's next message; the longest unused is ended first",
  }),
  agentModeLiveText: variable("AGENT_MODE_LIVE_TEXT", flag, "false", {
    meaning: "Send text as the model writes it, untagged, instead of whole blocks tagged narration or final",
  }),
  agentModeOnDisconnect: variable("AGENT_MODE_ON_DISCONNECT", disconnectPolicy, "cancel", {
    meaning:
      "What happens to an answer when its caller disconnects: `cancel`, `grace:SECONDS` (cancel after that), or `detach` (finish it)",
  }),
  agentModeStallTimeout: variable("AGENT_MODE_STALL_TIMEOUT", integer(1, 86_400), "120", {
    meaning: "Seconds after which a caller that reads nothing of its stream counts as disconnected",
  }),
  agentModeSideRequests: variable("AGENT_MODE_SIDE_REQUESTS", flag, "true", {
    meaning: "Answer side requests of chat UIs (titles, tags, follow-ups) without the agent",
  }),
  agentModeWorkspaces: variable("AGENT_MODE_WORKSPACES", path, ({ home }) => `${home}/.service/workspaces`, {
    meaning: "Root of the conversations' working directories",
  }),
  agentModeConversationTtl: variable("AGENT_MODE_CONVERSATION_TTL", integer(60, 315_360_000), "2592000", {
    meaning:
      "Seconds after its last message for which a conversation can be resumed; then its working directory is deleted",
  }),
  convHashFallback: variable("SERVICE_CONV_HASH_FALLBACK", flag, "true", {
    meaning: "Resume a conversation without an id by its first message",
  }),
};
