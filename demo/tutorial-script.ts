import { message, text, toolUse, type Answer } from "../test/fake-model/answer.ts";
import type { Conversation } from "../test/fake-model/conversation.ts";

/** What the scripted model answers to the messages of docs/use/tutorial.md that are no work on its repository. */
export const tutorialScript = ({ prompt, results }: Conversation): Answer | null => {
  const scene = scenes.find(({ asked }) => asked.test(prompt));
  if (scene === undefined) return null;
  const [result] = results;
  if (result === undefined) return message([text(scene.before), toolUse("Bash", scene.call)]);
  return message([text(scene.after(result.text.trim()))]);
};

const scenes = [
  {
    asked: /poem\.txt/,
    before: "I'll write it.",
    call: {
      command: "printf 'Snow on the old bridge\\n' > poem.txt",
      description: "Write the poem",
    },
    after: () => "poem.txt has its first line.",
  },
  {
    asked: /which files/i,
    before: "I'll look.",
    call: { command: "ls", description: "List the files" },
    after: (listed: string) => `There is ${listed.split("\n").join(", ")}.`,
  },
  {
    asked: /sleep 600/,
    before: "I'll write the notes, then wait.",
    call: {
      command: "echo '0 K is -273.15 degrees Celsius.' > notes.txt; sleep 600",
      description: "Write notes, then wait",
      timeout: 600_000,
    },
    after: () => "The notes are in notes.txt.",
  },
];
