import { Argument, Option, type Command } from "commander";
import { companionTargets } from "../contract/companion.ts";
import { examples, json, whole, type Lazily } from "./options.ts";

const headless = ["list", "chat", "job", "sync", "health", "local"];

/** The commands for operators. */
export const addServiceCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Service:");
  program
    .command("serve")
    .summary("run the service")
    .description("Run the service until a signal stops it.")
    .option(
      "--port <port>",
      "port to listen on; 0: a free one (default: SERVICE_PORT, else 8200)",
      whole(0, 65_535),
    )
    .option("--host <address>", "address to listen on (default: SERVICE_HOST, else 127.0.0.1)")
    .addHelpText("after", serveEnd)
    .action(lazily(async () => (await import("./commands/serve.ts")).serve));
  program
    .command("drain")
    .summary("let this instance take no new jobs, and wait for those it runs")
    .description(
      "Let the instance of this name (SERVICE_POD_NAME, else the host's name) take no new jobs, and wait until it runs none. Exit 0 when it runs none, 1 when jobs are left.",
    )
    .option("--timeout <seconds>", "how long to wait, 1 to 86400", whole(1, 86_400), 300)
    .addHelpText("after", drainEnd)
    .action(lazily(async () => (await import("./commands/drain.ts")).drain));
  program
    .command("update")
    .summary("install another version of svc")
    .description(
      "Install another version beside this one, let it prove that it runs and accepts the store, and change to it. The service is not touched: restart it with the line that this prints.",
    )
    .option("--source <source>", "a .tgz, a directory or a git URL")
    .option("--rollback", "go back to the version before")
    .option("--json", "print what came of it as JSON")
    .addHelpText(...examples("svc update --source ./svc-agent-0.2.0.tgz", "svc update --rollback"))
    .action(lazily(async () => (await import("./commands/update.ts")).update));
  program
    .command("status")
    .summary("show whether the service takes jobs, its queue and its checks")
    .description(
      "Show whether the service takes jobs, its queue, and what it checks: store, free room, credential. Exit 1 when it is down or refuses jobs.",
    )
    .option(...json)
    .addHelpText(...examples("svc status"))
    .action(lazily(async () => (await import("./commands/status.ts")).status));
  program
    .command("doctor")
    .summary("check what jobs need on this machine, and say what to do")
    .description(
      "Check git, the agent CLI, the model, gh and its rights, disk, store, clock and service, with the settings that svc serve would have. The agent CLI runs one turn in its sandbox with a scripted model, at most 60 s. The model's address gets one request, which costs nothing. Exit 1 when there is a fault.",
    )
    .addOption(new Option("--offline", "run no agent, ask nobody, write nothing").conflicts("askModel"))
    .option("--ask-model [name]", "let the real model (sonnet) answer one turn, too; costs a few cents")
    .option("--json", "print the checks as JSON")
    .addHelpText(...examples("svc doctor", "svc doctor --offline --json"))
    .action(lazily(async () => (await import("./commands/doctor.ts")).doctor));
  program
    .command("agents")
    .summary("chat with, give jobs to and look after the instances of a fleet")
    .description(
      "Instances of the service (in Kubernetes, on one store, or those of SERVICE_REMOTES) and agent packages on this machine. With --headless one command each, for scripts: JSON on stdout, errors on stderr.",
    )
    .addArgument(new Argument("[command]", "what to do, with --headless").choices(headless))
    .option("--headless", "run one command instead of the screen")
    .option("--pod <name>", "instance, or the beginning of its name: for chat, job, sync and health")
    .option("--agent <name>", "agent package: for local")
    .option(
      "--agentihub-dir <directory>",
      "checkout of the agent hub (default: HUB_DIR, else that of SERVICE_HUB_PATH or SERVICE_HUB_URL)",
    )
    .option("--message <text>", "what to say; -: standard input: for chat")
    .option("--task <text>", "what the agent is to do; -: standard input: for job")
    .option("--repo <url>", "repository: for job")
    .option("--no-wait", "do not wait for the answer of a chat")
    .addHelpText("after", agentsEnd)
    .action(lazily(async () => (await import("./commands/agents.ts")).agents));
  program
    .command("config")
    .description("show the settings and where each comes from, secrets masked")
    .option("--json", "print them as JSON")
    .addHelpText(...examples("svc config"))
    .action(lazily(async () => (await import("./commands/service.ts")).config));
  const hooks = program
    .command("hooks")
    .summary("fetch companion repositories")
    .description("Companion repositories: profiles and agents of an organisation.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command");
  hooks
    .command("sync")
    .summary("fetch them now, without the service")
    .description(
      "Fetch companion repositories. A service of this user uses the new files at once. Exit 1 when a fetch fails.",
    )
    .addOption(
      new Option("--target <target>", "which to fetch").choices(["all", ...companionTargets]).default("all"),
    )
    .option("--url <url>", "fetch the hook package from here instead of SERVICE_HOOKS_URL")
    .option("--json", "print the results as JSON")
    .addHelpText(...examples("svc hooks sync --target bundle"))
    .action(lazily(async () => (await import("./commands/hooks.ts")).hooksSync));
  program
    .command("init-shared-fs")
    .summary("lay out a file system that instances share")
    .description(
      "Create profiles/ (with copies of the bundled profiles), repos/, jobs/ and job-state/ under the shared root. What exists stays as it is.",
    )
    .option("--shared-root <directory>", "where (default: SERVICE_SHARED_FS_ROOT)")
    .option("--json", "print what was created as JSON")
    .addHelpText(...examples("svc init-shared-fs --shared-root /srv/shared"))
    .action(lazily(async () => (await import("./commands/service.ts")).initSharedFsCommand));
  program
    .command("version")
    .description("print program name and version")
    .option("--json", "print them as JSON")
    .addHelpText(...examples("svc version"))
    .action(lazily(async () => (await import("./commands/version.ts")).version));
};

const serveEnd = `
On SIGTERM the service takes no new jobs and gives the running ones
SERVICE_DRAIN_TIMEOUT (300 s) to finish. On a second one, or Ctrl-C at any time,
it ends the agents at once and saves their work.

Example:
  svc serve
`;

const agentsEnd = `
chat goes to instances with AGENT_MODE=true, job to any.

Examples:
  svc agents
  svc agents --headless list | jq -r '.remotes[] | "\\(.state) \\(.name)"'
  svc agents --headless chat --pod svc-0 --message "Why does the build fail?"
  svc agents --headless job --pod svc-1 --repo acme/app --task "Fix the test"
`;

const drainEnd = `
Needs KV_URL. Run it in the hook before an instance is stopped (preStop), in the
instance's own environment. It waits for chat turns and completions too. After a
drain the instance takes jobs again until it is stopped; when jobs are left, in
60 s.

Example:
  svc drain --timeout 600
`;
