import { Argument, type Command } from "commander";
import { examples, json, kindList, whole, type Lazily } from "./options.ts";

/** `svc chat` and `svc visibility` */
export const addAgentModeCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Agent mode:");
  program
    .command("chat")
    .summary("talk with the agent, live")
    .description(
      "Talk with the agent of a service that runs with AGENT_MODE=true. With a message: one question, one answer. On a terminal without one: a conversation.",
    )
    .argument("[message]", "what to say; - reads it from standard input")
    .option("-c, --conversation <id>", "conversation to continue or to start (default: a new one)")
    .option("-m, --model <id>", "agent or model to talk to (default: the loaded agent)")
    .option("--timeout <seconds>", "end an answer after this time, 1 to 604800", whole(1, 604_800))
    .option("--user <id>", "who is talking: conversations of different users are kept apart")
    .option("--hide <kinds>", "leave out some of: thinking,tools,narration,final", kindList)
    .option("--full", "show tool results whole instead of their first lines")
    .option("--no-live", "print text in whole blocks instead of word by word")
    .option("--json", "print the answer's chunks as they come, one JSON object a line")
    .addHelpText("after", chatEnd)
    .action(lazily(async () => (await import("./chat/chat.ts")).chat));
  program
    .command("visibility")
    .summary("show or set what the agent shows")
    .description(
      "Show which parts of its work the agent shows, or set them first: for everyone who talks to it, from their next answer on. text=off hides narration and final answer.",
    )
    .addArgument(
      new Argument("[changes...]", "what to show or hide").choices(
        ["thinking", "tools", "text", "narration", "final"].flatMap((kind) => [`${kind}=on`, `${kind}=off`]),
      ),
    )
    .option(...json)
    .addHelpText(...examples("svc visibility", "svc visibility thinking=off tools=on"))
    .action(lazily(async () => (await import("./commands/visibility.ts")).visibility));
};

const chatEnd = `
svc prints the conversation's id; with it you can continue later. At the prompt,
/help lists the commands. Exit: 0 the answer is complete, 1 there is none or not
all of it, 2 not understood, 130 interrupted (the turn is stopped).

Examples:
  svc chat
  svc chat "What does this service do, and where are its tests?"
  svc chat -c "$ID" "Now add the missing one"
  git diff | svc chat --hide thinking,tools,narration > review.md
`;
