/**
 * Unix time of an instant of the contract, ms; null for an empty text. Without an offset it is UTC. A date is its first
 * moment, or its last one as the end of a time.
 */
export const instantOf = (
  text: string,
  edge: "start of day" | "end of day" = "start of day",
): number | null => {
  if (text === "") return null;
  if (!text.includes("T")) return Date.parse(text) + (edge === "start of day" ? 0 : 86_400_000 - 1);
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`);
};
