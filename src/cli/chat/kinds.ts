import { InvalidArgumentError } from "commander";

/** What of an answer can be left out on this side. */
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
