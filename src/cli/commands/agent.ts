import { dirname, join } from "node:path";
import { confirm } from "../confirm.ts";
import {
  buildImage,
  container,
  findContainerTool,
  findEnvFile,
  findUpwards,
  image,
  isFile,
  requireTool,
  runTool,
  statusOf,
} from "../container-tool.ts";
import { CliError, exitCode, usageError } from "../failure.ts";
import { note, print, printJson } from "../print.ts";

type Options = { file?: string; yes?: boolean; json?: boolean };
type Request = Options & { tool: string; service?: string | undefined };
type Action = keyof typeof actions;

/** `svc agent`. Resolves to the exit code, which may be that of docker or podman. */
export const agent = async (
  service: string | undefined,
  options: Options & Partial<Record<Action, boolean>>,
): Promise<number> => {
  const [action, ...more] = (Object.keys(actions) as Action[]).filter((name) => options[name]);
  if (action === undefined || more.length > 0)
    throw usageError(
      "Give one action: --build, --run, --enter, --stop, --logs, --list, --compose-up, --compose-down, --compose-enter or --compose-logs",
    );
  if (options.file !== undefined && action !== "build") throw usageError("--file goes with --build");
  if (options.json && action !== "list") throw usageError("--json goes with --list");
  const takesName = /^compose(Enter|Logs)$/.test(action);
  if (service !== undefined && !(takesName && /^\w[\w.-]*$/.test(service)))
    throw usageError(
      "A name goes with --compose-enter and --compose-logs: that of a service in the stack file",
    );
  return await actions[action]({ tool: await findContainerTool(), service, ...options });
};

const build = async ({ tool, file }: Request): Promise<number> => {
  await buildImage(tool, { reference: image, file });
  print(image);
  return exitCode.ok;
};

const requireContainer = async (tool: string): Promise<void> => {
  if ((await statusOf(tool)) === null)
    throw new CliError(`There is no container ${container}: start it with svc agent --run`);
};

/** Runs the tool on the container; passes on its exit code. */
const onContainer = async (tool: string, args: string[]): Promise<number> => {
  await requireContainer(tool);
  return (await runTool(tool, args)).code;
};

const stop = async ({ tool, yes }: Request): Promise<number> => {
  await requireContainer(tool);
  await ask(`Stop and remove the container ${container}?`, yes);
  note("svc: running jobs get SERVICE_DRAIN_TIMEOUT to finish");
  // --run has set how long it waits.
  await requireTool(tool, ["stop", container], { stdout: "pipe" });
  await requireTool(tool, ["rm", container], { stdout: "pipe" });
  return exitCode.ok;
};

const ask = async (question: string, yes = false): Promise<void> => {
  if (!yes && !(await confirm(`${question} [y/N] `, false)))
    throw new CliError("Nothing was stopped: --yes stops it without asking");
};

const list = async ({ tool, json }: Request): Promise<number> => {
  const args = ["ps", "--all", "--filter", "label=org.opencontainers.image.title=svc"];
  if (!json) return (await runTool(tool, args)).code;
  const format = "{{.ID}}|{{.Names}}|{{.Image}}|{{.Status}}|{{.Ports}}";
  const found = await requireTool(tool, [...args, "--format", format], { stdout: "pipe" });
  const rows = [...found.matchAll(/^(.+)\|(.+)\|(.+)\|(.*)\|(.*)$/gm)];
  const containers = rows.map(([, id, name, of, status, ports]) => ({ id, name, image: of, status, ports }));
  printJson({ success: true, containers });
  return exitCode.ok;
};

/** Runs compose on the stack file; passes on its exit code. */
const compose = async (tool: string, args: string[]): Promise<number> => {
  const stack = await findUpwards(stackFiles, 5);
  if (stack === null)
    throw usageError(
      `There is no stack file in ${process.cwd()} and the four directories above it: ${stackFiles.join(", ")}`,
    );
  if ((await runTool(tool, ["compose", "version"], { stdout: "pipe" })).code !== 0)
    throw new CliError(
      "compose is missing: install Docker's compose plugin, or podman 4.7 or later with podman-compose",
    );
  const own = join(dirname(stack), ".env");
  // The later one wins.
  const envFiles = new Set([await findEnvFile(), (await isFile(own)) ? own : null]);
  const given = [...envFiles].flatMap((file) => (file === null ? [] : ["--env-file", file]));
  note(`svc: with ${[stack, ...given.filter((word) => word !== "--env-file")].join(" and ")}`);
  return (await runTool(tool, ["compose", "--file", stack, ...given, ...args])).code;
};

const atRoot = ["compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"];
const stackFiles = [...atRoot, "deploy/compose/compose.yaml"];

const hasTerminal = process.stdin.isTTY;

const actions = {
  build,
  run: async ({ tool }: Request) => (await import("./agent-run.ts")).run(tool),
  enter: ({ tool }: Request) =>
    onContainer(tool, ["exec", "--interactive", ...(hasTerminal ? ["--tty"] : []), container, "bash"]),
  stop,
  logs: ({ tool }: Request) => onContainer(tool, ["logs", "--follow", container]),
  list,
  composeUp: ({ tool }: Request) => compose(tool, ["up", "--build", "--detach"]),
  composeDown: async ({ tool, yes }: Request) => {
    await ask("Stop the stack and remove its containers?", yes);
    return await compose(tool, ["down"]);
  },
  composeEnter: ({ tool, service = "svc-1" }: Request) =>
    compose(tool, ["exec", ...(hasTerminal ? [] : ["-T"]), service, "bash"]),
  composeLogs: ({ tool, service }: Request) =>
    compose(tool, ["logs", "--follow", ...(service === undefined ? [] : [service])]),
};
