import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Argument, type Command } from "commander";
import { CliError } from "./failure.ts";
import { examples } from "./options.ts";
import { print } from "./print.ts";

/** `completion SHELL` prints the script that the build has made from the commands of this program. */
export const addCompletionCommand = (program: Command): void => {
  const name = program.name();
  program
    .command("completion")
    .summary("print a script with which a shell completes words")
    .description(
      "Print a script with which a shell completes commands, options and their choices at Tab: for bash and zsh a line of ~/.bashrc or ~/.zshrc (there after compinit), for fish a file.",
    )
    .addArgument(new Argument("<shell>", "the shell to complete words in").choices(["bash", "zsh", "fish"]))
    .addHelpText(
      ...examples(
        `source <(${name} completion bash)`,
        `source <(${name} completion zsh)`,
        `${name} completion fish > ~/.config/fish/completions/${name}.fish`,
      ),
    )
    .action((shell: string) => print(readFileSync(scriptOf(name, shell), "utf8").trimEnd()));
};

const scriptOf = (name: string, shell: string): string => {
  const file = join("completion", `${name}.${shell}`);
  const built = [join(import.meta.dirname, file), join(import.meta.dirname, "..", "..", "dist", file)].find(
    (path) => existsSync(path),
  );
  if (built === undefined) throw new CliError("The scripts are made by the build: npm run build");
  return built;
};
