import type { Job } from "../contract/job.ts";
import { counted } from "./quantities.ts";
import { oneLine } from "./sanitise.ts";

/** The things that the sandbox refused the agent, and what to name to allow them. */
export const refusedLines = ({ sandbox }: Pick<Job, "sandbox">): string[] =>
  (sandbox?.denied ?? []).map(
    ({ name, count, allow }) =>
      `${oneLine(name)}, ${counted(count, "time")}${allow === "" ? "" : `: allow ${oneLine(allow)}`}`,
  );

/** The sandbox that the agent runs in; null: it has not started. */
export const sandboxText = ({ sandbox }: Pick<Job, "sandbox">): string | null => {
  if (sandbox === null) return null;
  const { mode, network, limits } = sandbox;
  return `${mode}, network: ${network}${limits === "none" ? "" : `, limits by ${limits}`}`;
};
