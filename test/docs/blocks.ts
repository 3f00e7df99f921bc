/** A shell block of a page, and the text block below it that says what is seen. */
export type Block = { line: number; title: string; script: string; seen: string | null };

/** The shell blocks of a Markdown page in their order. */
export const shellBlocks = (page: string): Block[] => {
  const fences = [...page.matchAll(/^```(\w*)\n([^]*?)^```$/gm)].map(({ 1: kind, 2: text = "", index }) => ({
    kind,
    text,
    line: page.slice(0, index).split("\n").length,
  }));
  return fences.flatMap(({ kind, text, line }, number) => {
    const next = fences[number + 1];
    const [title = ""] = text.split("\n");
    return kind === "sh"
      ? [{ line, title, script: text, seen: next?.kind === "text" ? next.text : null }]
      : [];
  });
};
