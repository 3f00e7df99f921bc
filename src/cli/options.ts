import { InvalidArgumentError } from "commander";

type Action<Args extends unknown[]> = (...args: Args) => Promise<number>;

/** Turns a function that imports an action into the action of a command. */
export type Lazily = <Args extends unknown[]>(
  load: () => Promise<Action<Args>>,
) => (...args: Args) => Promise<void>;

export const json = ["--json", "print the service's answer as JSON"] as const;

export const jobId = [
  "<job_id>",
  "id of the job or its first digits; latest: the newest; -: the last one used",
] as const;

/** For commands that read: without an id, the newest job. */
export const jobIdOrLatest = [
  "[job_id]",
  "id of the job or its first digits; -: the last one used; without one, the newest",
  "latest",
] as const;

export const baseRef = [
  "--base, --base-ref <ref>",
  "branch or tag to base the work on (default: SERVICE_BASE_REF (main), else the repository's default branch)",
] as const;

/** Text for `addHelpText`: commands that a user may type, a line each. */
export const examples = (...lines: string[]) =>
  [
    "after",
    ["", lines.length === 1 ? "Example:" : "Examples:", ...lines.map((line) => `  ${line}`), ""].join("\n"),
  ] as const;

/** Reads an option as a whole number within these bounds. */
export const whole =
  (min: number, max: number) =>
  (text: string): number => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max) {
      throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
    }
    return value;
  };

/** Parts of an answer that `svc chat` can hide. */
const kinds = ["thinking", "tools", "narration", "final"] as const;
export type Kind = (typeof kinds)[number];

/** Reads `--hide`. */
export const kindList = (text: string): Kind[] => {
  const words = text.split(",").map((word) => word.trim());
  const hidden = kinds.filter((kind) => words.includes(kind));
  if (hidden.length !== new Set(words).size) {
    throw new InvalidArgumentError(`It must be a comma-separated list of ${kinds.join(", ")}.`);
  }
  return hidden;
};
