import { Option, type Command } from "commander";
import { secretPhases } from "../contract/secret.ts";
import { gathered, json, type Lazily } from "./options.ts";

/** `svc secrets`; what lists and removes them is declared by its operation. */
export const addSecretsCommand = (program: Command, lazily: Lazily): void => {
  const secrets = program
    .command("secrets")
    .helpGroup("Secrets:")
    .summary("set, list and remove what jobs get as secrets")
    .description("Secrets of jobs: set one, list them without their values, remove one.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command");
  secrets
    .command("set")
    .summary("set a secret")
    .description(
      "Store a secret, in place of the one with the same name, repository and phase. The value is read from standard input, or asked for without an echo.",
    )
    .argument("<name>", "environment variable that it is given as")
    .requiredOption(
      "--repo <glob>",
      "repositories that it is for: github.com/acme/app, 'github.com/acme/*'; '*': all",
    )
    .addOption(new Option("--phase <phase>", "who gets it").choices(secretPhases).makeOptionMandatory())
    .option("--host <host>", "host whose requests get it, can be repeated; without one it is plain", gathered)
    .option("--header <name>", "header that it is put into (default: Authorization)")
    .option("--plain", "commands get the value itself, and can learn it")
    .option(
      "--branch <glob>",
      "base on which a setup gets it, too: 'release/*' (default: as before)",
      gathered,
    )
    .option(...json)
    .allowExcessArguments()
    .allowUnknownOption()
    .addHelpText("after", setEnd)
    .action(lazily(async () => (await import("./commands/secrets-set.ts")).secretsSet));
};

const setEnd = `
setup: the commands of a setup have it. checks: the commands that check the work.
agent: the agent. They have a placeholder, and the sandbox puts the value into
requests to the hosts. A plain secret, such as a database password, is its value:
setup and checks only, in a setup only on the default branch and on --branch.

Examples:
  svc secrets set NPM_TOKEN --repo 'github.com/acme/*' --phase setup \\
    --host npm.acme.example < token
  pass show stripe | svc secrets set STRIPE_KEY --repo github.com/acme/shop \\
    --phase agent --host api.stripe.com --header Authorization
`;
