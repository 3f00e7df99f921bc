/** Why a signal was aborted, or what was thrown, as the end of a sentence. */
export const reasonText = (reason: unknown): string => {
  const text =
    reason instanceof Error ? reason.message : typeof reason === "string" ? reason : "no reason was given";
  return text.replace(/\.$/, "");
};
