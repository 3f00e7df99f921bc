/** Whether a failure is told to somebody who submitted a job, or who sent a message of a conversation. */
export type Wording = "run" | "turn";

type Raise = (what: { profile: string }) => string;

/** What the reader can do about a failure, in the words of the door that it came through. */
type Words = {
  again: string;
  /** `again`, and what else may help. */
  retry: string;
  /** ` or …` with its comma in front, empty when there is nothing else to do. */
  orResume: string;
  resume: string;
  resumeIts: string;
  whose: string;
  inProfile: string;
  raise: { timeout: Raise; max_turns: Raise; max_budget_usd: Raise };
};

export const wordings: Record<Wording, Words> = {
  run: {
    again: "submit the job again",
    retry: "submit the job again or resume its session",
    orResume: ", or resume its session",
    resume: "resume the session",
    resumeIts: "resume its session",
    whose: "profile's",
    inProfile: " in the profile",
    raise: {
      timeout: ({ profile }) => `Raise \`timeout\` in the profile "${profile}" or SERVICE_AGENT_CLI_TIMEOUT`,
      max_turns: ({ profile }) => `Raise \`max_turns\` in the profile "${profile}"`,
      max_budget_usd: ({ profile }) => `Raise \`max_budget_usd\` in the profile "${profile}"`,
    },
  },
  turn: {
    again: "send the message again",
    retry: "send the message again",
    orResume: "",
    resume: "send another message",
    resumeIts: "send another message",
    whose: "agent's",
    inProfile: "",
    raise: {
      timeout: () => "Raise `timeout` in the request, in `agent.yml` or by AGENT_MODE_TIMEOUT",
      max_turns: () => "Raise `max_turns` in `agent.yml` (or of the completion), or AGENT_MODE_MAX_TURNS",
      max_budget_usd: () => "Raise `max_budget_usd` in `agent.yml`",
    },
  },
};
