import type { JobEvent } from "../../contract/event.ts";
import { duration } from "../text/duration.ts";
import { oneLine } from "../text/sanitise.ts";
import { toolCall } from "../text/tool-call.ts";
import type { Row } from "./row.ts";

type Line = Omit<Row, "elapsedMs">;

/**
 * The event as one line; null when it says nothing to a reader, or belongs to the flow of text.
 * @param worktree directory the agent works in, where it is known
 */
export const describeEvent = (event: JobEvent, worktree: string | null): Line | null => {
  // The key is the event's own type, which the compiler cannot tie to the row of the table. A type that a later
  // service tells, and this program does not know, has none.
  const describe = described[event.type] as Describe<JobEvent> | undefined;
  return describe?.(event, worktree) ?? null;
};

type Describe<Event> = (event: Event, worktree: string | null) => Line | null;

type Described = { [Type in JobEvent["type"]]: Describe<Extract<JobEvent, { type: Type }>> };

const described: Described = {
  stage: ({ stage, detail }) => line("stage", stage.replaceAll("_", " "), detail),
  started: ({ session_id: id, model }) => line("note", "session", model === null ? id : `${id}, ${model}`),
  tool_use: ({ name, input, parent }, worktree) => ({
    kind: "tool",
    text: `${parent === null ? "" : "↳ "}${toolCall(name, input, worktree)}`,
  }),
  tool_result: ({ is_error: failed, content }) =>
    failed ? line("problem", "tool failed", firstLine(content)) : null,
  retry: ({ status, error, retry: nth, max_retries: most, delay_ms: delay }) => {
    const answer = status === null ? "failed" : `answered ${status}`;
    const next = `try ${nth} of ${most} in ${duration(delay)}`;
    return line("problem", `the model's API ${answer}, ${next}`, error);
  },
  rate_limit: ({ status, resets_at: resets }) => {
    if (status === "allowed") return null;
    return line("problem", "rate limit", resets === null ? status : `${status}, resets at ${resets}`);
  },
  result: ({ ok, subtype, text }) =>
    // The CLI calls a result a "success" although its API refused.
    ok
      ? null
      : line(
          "problem",
          subtype === "success" ? "the agent gave up" : `the agent gave up (${short(subtype)})`,
          firstLine(text),
        ),
  exited: ({ exit_code: code, signal }) => {
    if (signal !== null) return line("note", "the agent's process was ended by", signal);
    return code === 0 || code === null
      ? null
      : line("problem", `the agent's process exited with ${code}`, null);
  },
  warning: ({ message }) => line("problem", message, null),
  thinking: () => null,
  text: () => null,
  block_end: () => null,
  tool_start: () => null,
};

const line = (kind: Row["kind"], head: string, detail: string | null): Line => ({
  kind,
  text: detail === null || detail === "" ? short(head) : `${short(head)}  ${short(detail)}`.trimEnd(),
});

const short = (text: string): string => oneLine(text.slice(0, 2000));

const firstLine = (text: string): string => text.slice(0, 2000).trimStart().split("\n", 1)[0] ?? "";
