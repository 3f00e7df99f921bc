import { InvalidArgumentError, Option, type Command } from "commander";
import { examples, type Lazily } from "./options.ts";

/** `svc agent` and `svc push` */
export const addContainerCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Containers:");
  program
    .command("agent")
    .summary("run the service in a container here: build, start, stop")
    .description("Build the service's image and run it on this machine, or a stack. Give one action.")
    .argument("[service]", "with --compose-enter (default: svc-1) and --compose-logs: one of the stack")
    .option("-b, --build", "build the image from the checkout in the current directory")
    .option("-r, --run", "start the container svc on SERVICE_PORT (8200) of loopback")
    .option("-e, --enter", "open a shell in it")
    .option("-s, --stop", "let its jobs finish, stop it and remove it")
    .option("-l, --logs", "follow its log")
    .option("--list", "list the containers made from the image")
    .option("--compose-up", "build the stack and start it in the background")
    .option("--compose-down", "stop the stack and remove its containers")
    .option("--compose-enter", "open a shell in a service of the stack")
    .option("--compose-logs", "follow the logs of the stack")
    .option("--file <file>", "with --build: build file (default: deploy/container/Containerfile)")
    .option("-y, --yes", "with --stop and --compose-down: do not ask")
    .option("--json", "with --list: print JSON")
    .addHelpText("after", agentEnd)
    .action(lazily(async () => (await import("./commands/agent.ts")).agent));
  program
    .command("push")
    .summary("build the container image and push it to a registry")
    .description(
      "Build the container image from the checkout here, and push it as CONTAINER_REGISTRY/svc:TAG. Branches are pushed by the jobs themselves.",
    )
    .option("-m, --main", "the service's image, which is the only one")
    .option("-a, --all", "all images: the same")
    .option("-t, --tag <tag>", "tag of the image", imageTag, "latest")
    .addOption(new Option("--build-only", "do not push").conflicts("pushOnly"))
    .option("--push-only", "do not build: push what was built before")
    .option("--no-cache", "build without what earlier builds left")
    .addHelpText(...examples("CONTAINER_REGISTRY=ghcr.io/acme svc push --tag 0.1.0"))
    .action(lazily(async () => (await import("./commands/push.ts")).push));
};

const imageTag = (text: string): string => {
  if (/^\w[\w.-]{0,127}$/.test(text)) return text;
  throw new InvalidArgumentError("It must be 1 to 128 letters, digits and ._- and not begin with . or -.");
};

const agentEnd = `
With docker or podman. --run and --compose-* read .env in the current directory
or above it, else ~/.env. The stack file (compose.yaml, docker-compose.yaml,
deploy/compose/compose.yaml) may be up to four directories above.

Examples:
  svc agent --build && svc agent --run
  svc agent --compose-enter svc-1
`;
