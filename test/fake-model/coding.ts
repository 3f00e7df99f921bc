import { basename } from "node:path";
import { type Answer, message, text, thinking, toolUse } from "./answer.ts";
import type { Conversation, ToolResult } from "./conversation.ts";
import { planFor } from "./recipes.ts";

/**
 * The default scenario: a small piece of real work on whatever repository the CLI stands in. Look around, read what is to be
 * changed, write it, commit, summarise. Which step is next follows from the number of tool results; a step that fails ends
 * the turn with an honest word instead of going on.
 */
export const code = ({ prompt, results }: Conversation): Answer => {
  const failed = results.find(({ isError }) => isError);
  if (failed)
    return message([text(`I could not finish the task, a step failed: ${failed.text.slice(0, 500)}`)]);
  const [survey, ...later] = results;
  if (!survey) {
    return message([
      thinking("First I need to know what is in the repository."),
      text("I'll look around first."),
      toolUse("Bash", {
        command: "pwd; git ls-files 2>/dev/null | head -n 200; true",
        description: "List the repository's files",
      }),
    ]);
  }
  const [directory = "", ...files] = survey.text.split("\n").filter((line) => line !== "");
  const plan = planFor({ task: prompt, files, project: basename(directory) });
  const reads = plan.edits.filter(({ path }) => files.includes(path));
  const absolute = (path: string) => `${directory}/${path}`;
  const read = reads[later.length];
  if (read)
    return message([text(`I'll read ${read.path}.`), toolUse("Read", { file_path: absolute(read.path) })]);

  const edits = plan.edits.map((edit) => {
    const result = later[reads.indexOf(edit)];
    const before = result ? fileContent(result) : null;
    return { path: edit.path, before, content: edit.write(before) };
  });
  if (edits.every(({ before, content }) => before === content)) {
    return message([text("The repository already has what the task asks for; nothing was changed.")]);
  }
  const edit = edits[later.length - reads.length];
  if (edit) {
    const why = later.length === reads.length ? [thinking(plan.reasoning)] : [];
    const write = toolUse("Write", { file_path: absolute(edit.path), content: edit.content });
    return message([...why, text(`Now I'll write ${edit.path}.`), write]);
  }
  if (later.length === reads.length + plan.edits.length) {
    const paths = plan.edits.map(({ path }) => `'${path}'`).join(" ");
    const command = `${plan.check === null ? "" : `${plan.check} && `}git add -- ${paths} && git commit --quiet -m '${plan.commit}' && git log -1 --stat --oneline`;
    return message([
      text(plan.check === null ? "I'll commit it." : "I'll run the tests and commit it."),
      toolUse("Bash", { command, description: "Check and commit the change" }),
    ]);
  }
  return message([text(plan.summary)]);
};

/** The file's text from the Read tool's numbered lines. */
const fileContent = ({ text: numbered }: ToolResult): string =>
  `${numbered
    .split("\n")
    .map((line) => line.replace(/^\s*\d+(?:→|\t)/, ""))
    .join("\n")
    .trimEnd()}\n`;
