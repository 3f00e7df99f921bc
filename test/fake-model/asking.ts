import { type Answer, message, text, toolUse } from "./answer.ts";
import type { Conversation, ToolResult } from "./conversation.ts";

type Asking = {
  questions?: { question: string }[] | undefined;
  /** Whether it first asks beside another call. */
  sister: boolean;
  text: string;
};

/** Asks the user, writes what the tool tells about the answer to `answer.txt`, says `text`. */
export const ask = (
  { results }: Conversation,
  { questions = database, sister, text: final }: Asking,
): Answer => {
  const asked = toolUse("AskUserQuestion", { questions });
  const beside = toolUse("Bash", { command: "echo beside", description: "Say a word" });
  if (sister && results.length === 0) return message([text("I ask beside another call."), asked, beside]);
  const told = results.slice(sister ? 2 : 0);
  return told.length === 0 ? message([text("I have to ask."), asked]) : work(told, final);
};

/** Has a plan approved, which it changes by the words of who sends it back, and then works as `ask`. */
export const plan = (
  { results }: Conversation,
  { plan: first, text: final }: { plan: string; text: string },
): Answer => {
  const approval = results.findIndex(({ isError }) => !isError);
  if (approval >= 0) return work(results.slice(approval), final);
  if (results.length > 5) return message([text(`I have no approval: ${results.at(-1)?.text}`)]);
  const whole = [first, ...results.map((result) => result.text)].join("\n");
  return message([text(whole), toolUse("ExitPlanMode", { plan: whole })]);
};

const work = ([answer, ...later]: ToolResult[], final: string): Answer => {
  if (answer === undefined || later.length > 0) return message([text(final)]);
  const command = `cat >answer.txt <<'END_OF_ANSWER'\n${answer.text}\nEND_OF_ANSWER`;
  return message([toolUse("Bash", { command, description: "Write the answer down" })]);
};

const database = [
  {
    question: "Which database?",
    header: "Database",
    options: [
      { label: "Postgres", description: "A server" },
      { label: "SQLite", description: "A file" },
    ],
    multiSelect: false,
  },
];
