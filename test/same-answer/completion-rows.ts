import type { Row, Scene } from "./scene.ts";

/** Each door's is a turn of its own. */
const newTurn = ["session_id", "duration_ms", "created_at", "started_at", "ended_at"];
const ask = (uuid: string, more: Record<string, string | boolean> = {}) => ({
  input: { uuid, message: "scenario: noop", stateless: true, ...more },
});

export const completionRows = (scene: () => Scene): Row[] => [
  {
    operation: "agent_completions",
    outcome: "success",
    question: () => ask("asked-by-all"),
    varies: newTurn,
  },
  {
    operation: "agent_completions",
    outcome: "model_not_found",
    question: () => ask("never", { model: "nobody" }),
  },
  {
    operation: "agent_completions",
    outcome: "completion_running",
    question: () => ask("endless"),
  },
  {
    operation: "agent_completions",
    outcome: "capacity_full",
    question: () => ask("one-too-many"),
    service: () => scene().full,
  },
  {
    operation: "agent_completions",
    outcome: "no_model_credential",
    question: () => ask("poor"),
    service: () => scene().poor,
  },
  {
    operation: "agent_completions",
    outcome: "draining",
    question: async () => {
      await scene().drain();
      return ask("too-late");
    },
    service: () => scene().draining,
  },
  { operation: "get_completion", outcome: "success", question: () => ({ input: { uuid: "endless" } }) },
  {
    operation: "get_completion",
    outcome: "completion_not_found",
    question: () => ({ input: { uuid: "../../etc/passwd" } }),
  },
  { operation: "list_completions", outcome: "success", question: () => ({ input: { status: "running" } }) },
  { operation: "list_completions", outcome: "success", question: () => ({ input: { status: "all" } }) },
  {
    operation: "cancel_completion",
    outcome: "success",
    question: async () => {
      await scene().roomy.client.agent_completions({ uuid: "ended", message: "scenario: noop" });
      return { input: { uuid: "ended" } };
    },
  },
  {
    operation: "cancel_completion",
    outcome: "completion_not_found",
    question: () => ({ input: { uuid: "nobody" } }),
  },
  { operation: "get_visibility", outcome: "success", question: () => ({ input: {} }) },
  {
    operation: "set_visibility",
    outcome: "success",
    question: () => ({ input: { show_thinking: false, show_final: true } }),
  },
  ...(["get_visibility", "set_visibility"] as const).map((operation): Row => ({
    operation,
    outcome: "store_unavailable",
    question: async () => {
      await scene().loseStore("stream_config");
      return { input: operation === "get_visibility" ? {} : { show_tools: false } };
    },
    after: () => scene().findStore("stream_config"),
  })),
];
