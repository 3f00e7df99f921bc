import { message, text, thinking, toolUse, type Answer } from "../../fake-model/answer.ts";
import type { Script } from "../../fake-model/listener.ts";

/** What the model does when it is told to `do the work` on a file: two tools, with thoughts and words between them. */
export const work = {
  thoughts: ["First I read what is there. ", "Then I count it. "],
  words: ["I read the file.", "Now I count its letters.", "The file has 11 letters: Ärger & Öl."],
  command: "echo counted 11",
};

/** What the model answers to what the tests of the clients say. `file` is a text file. */
export const clientScript =
  (file: string): Script =>
  ({ prompt, answers }) => {
    // After a turn that was interrupted its words stand before the new ones.
    const said = prompt.split("\n").at(-1) ?? "";
    const failure = /fail with (\d+)/.exec(said);
    if (failure !== null) return failing(Number(failure[1]), said.includes("after a tool") && answers === 0);
    if (said.includes("do the work")) return working(file, answers);
    if (said.includes("write slowly"))
      return message([thinking("Slowly."), text("word ".repeat(600))], { rate: 20, deltaLength: 5 });
    if (said.includes("take a moment"))
      return message([text("a moment it was")], { rate: 4, deltaLength: 2 });
    return null;
  };

const working = (file: string, answers: number): Answer => {
  const [think = "", thinkAgain = ""] = work.thoughts;
  const [first = "", second = "", last = ""] = work.words;
  switch (answers) {
    case 0:
      return message([thinking(think), text(first), toolUse("Read", { file_path: file })]);
    case 1:
      return message([
        thinking(thinkAgain),
        text(second),
        toolUse("Bash", { command: work.command, description: "Count" }),
      ]);
    default:
      return message([text(last)]);
  }
};

/** Without retries of the CLI: how long it goes on trying is its own matter. */
const failing = (status: number, toolFirst: boolean): Answer =>
  toolFirst
    ? message([thinking("Hm."), text("I try it."), toolUse("Bash", { command: "true", description: "Try" })])
    : {
        kind: "error",
        status,
        message: "The scripted model refuses.",
        headers: { "x-should-retry": "false" },
      };

/** The content of the answer to `do the work` as a client has it at the end. */
export const workContent = (file: string): string => {
  const [first = "", second = "", last = ""] = work.words;
  const input = (value: object) => JSON.stringify(value, null, 2);
  return [
    first,
    `\n\n\`\`\`tool_use:Read\n${input({ file_path: file })}\n\`\`\`\n`,
    `\n\`\`\`tool_result\n1\t${fileText}\n\`\`\`\n`,
    second,
    `\n\n\`\`\`tool_use:Bash\n${input({ command: work.command, description: "Count" })}\n\`\`\`\n`,
    "\n```tool_result\ncounted 11\n```\n",
    last,
  ].join("");
};

/** What stands in the file. */
export const fileText = "hello world";
