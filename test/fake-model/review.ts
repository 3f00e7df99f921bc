import { type Answer, message, text, thinking, toolUse } from "./answer.ts";
import type { Conversation } from "./conversation.ts";

/** A read-only look at the repository with the tools that are offered: list, read one file, search, then say what was seen. */
export const review = ({ results, tools }: Conversation): Answer => {
  const listed = results[0]?.text.split("\n").filter((line) => /\.\w+$/.test(line)) ?? [];
  const steps = [
    {
      tool: "Glob",
      input: { pattern: "**/*.{md,txt,js,ts,py,go,rs,java,rb,c,sh,json}" },
      words: "I'll look at what is here.",
    },
    { tool: "Read", input: { file_path: chooseFile(listed) }, words: "I'll read the file that says most." },
    {
      tool: "Grep",
      input: { pattern: "TODO|FIXME", output_mode: "content" },
      words: "I'll search for what was left undone.",
    },
  ];
  const next = steps[results.length];
  const canGoOn = next && tools.includes(next.tool) && !(next.tool === "Read" && listed.length === 0);
  if (canGoOn)
    return message([thinking("A review only reads."), text(next.words), toolUse(next.tool, next.input)]);
  const lines = results[1] && !results[1].isError ? results[1].text.split("\n").length : 0;
  const left = results[2]?.text.match(/TODO|FIXME/g)?.length ?? 0;
  const seen = `${listed.length} files listed; ${lines} lines read in ${chooseFile(listed) || "none of them"}; ${left} open TODO marks.`;
  return message([text(`Review: ${seen} Nothing was changed.`)]);
};

const chooseFile = (paths: string[]): string => paths.find((path) => /readme/i.test(path)) ?? paths[0] ?? "";
