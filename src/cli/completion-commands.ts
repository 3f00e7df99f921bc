import { Argument, type Command } from "commander";
import { examples, type Lazily } from "./options.ts";

const shells = ["bash", "zsh", "fish"];

/** `completion SHELL`, and the hidden command that its scripts call at each Tab. Both work for any program. */
export const addCompletionCommands = (program: Command, lazily: Lazily): void => {
  const name = program.name();
  program
    .command("completion")
    .summary("print a script with which a shell completes words")
    .description(
      `Print a script with which a shell completes commands, options and their values at Tab: for bash and zsh a line of ~/.bashrc or ~/.zshrc (there after compinit), for fish a file.`,
    )
    .addArgument(new Argument("<shell>", "the shell to complete words in").choices(shells))
    .addHelpText(
      ...examples(
        `source <(${name} completion bash)`,
        `source <(${name} completion zsh)`,
        `${name} completion fish > ~/.config/fish/completions/${name}.fish`,
      ),
    )
    .action(
      lazily(async () => {
        const { printScript } = await import("./completion/scripts.ts");
        return async (shell: string) => printScript(name, shell);
      }),
    );
  program
    .command("__complete", { hidden: true })
    .addArgument(new Argument("<shell>").choices(shells))
    .argument("[words...]")
    .action(
      lazily(async () => {
        const { printCompletions } = await import("./completion/complete.ts");
        return (shell: string, words: string[]) => printCompletions(program, shell, words);
      }),
    );
};
