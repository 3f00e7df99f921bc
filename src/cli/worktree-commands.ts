import type { Command } from "commander";
import { baseRef, examples, json, whole, type Lazily } from "./options.ts";

/** `svc worktrees …` and `svc disk` */
export const addWorktreeCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Worktrees:");
  const worktrees = program
    .command("worktrees")
    .summary("prepare, list, show and remove worktrees")
    .description("Worktrees: prepare one to run tasks in, list and show them, remove them.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command")
    .addHelpText("after", worktreesExamples);
  worktrees
    .command("list")
    .description("list prepared worktrees and those of jobs, oldest first")
    .option(...json)
    .addHelpText(...examples("svc worktrees list"))
    .action(lazily(async () => (await import("./commands/worktrees.ts")).worktreesList));
  worktrees
    .command("show")
    .summary("show one, and how to get its saved work back")
    .description("Show a worktree: status, branch, path, size, whether it is pushed, and its saved work.")
    .argument("<worktree>", "id of the worktree or its first digits")
    .option(...json)
    .addHelpText(...examples("svc worktrees show 0b8e"))
    .action(lazily(async () => (await import("./commands/worktrees.ts")).worktreesShow));
  worktrees
    .command("prepare")
    .summary("clone and check out, to run tasks in later")
    .description(
      "Clone a repository and check out a worktree of it. Waits until it is ready, then prints its id, path and branch; where standard output is no terminal, the id alone.",
    )
    .argument("<url>", "git repository: an https or ssh URL, a path, or acme/app")
    .option(...baseRef)
    .option("--json", "print the service's answer as JSON; only the final one")
    .addHelpText("after", prepareExamples)
    .action(lazily(async () => (await import("./commands/worktrees-prepare.ts")).worktreesPrepare));
  for (const command of [worktrees.command("cleanup"), program.command("rm")])
    command
      .summary("remove worktrees, by name or by age")
      .description(
        "Remove worktrees: all that are named, and with --max-age-hours all that are older, named or not.",
      )
      .argument("[worktrees...]", "paths or ids of worktrees, or first digits of ids")
      .option("--max-age-hours <hours>", "remove all that are older than this", whole(1, 876_000))
      .option(
        "-f, --force",
        "remove also those that a job uses or that hold unpushed work; svc saves the work first",
      )
      .option("--dry-run", "only show what would be removed")
      .option(...json)
      .addHelpText("after", cleanupExamples)
      .action(lazily(async () => (await import("./commands/worktrees-cleanup.ts")).worktreesCleanup));
  program
    .command("disk")
    .description("show what each repository takes on disk, and what is free")
    .option(...json)
    .addHelpText(...examples("svc disk"))
    .action(lazily(async () => (await import("./commands/worktrees.ts")).disk));
};

const worktreesExamples = `
In two steps, prepare and run:
  ID=$(svc worktrees prepare https://github.com/acme/app)
  svc run "Fix the failing date test" --worktree-id "$ID" --wait
`;

const prepareExamples = `
Examples:
  svc worktrees prepare https://github.com/acme/app
  svc worktrees prepare . --base develop
  ID=$(svc worktrees prepare git@github.com:acme/app.git)
`;

const cleanupExamples = `
Examples:
  svc worktrees cleanup "$ID"
  svc worktrees cleanup --max-age-hours 72 --dry-run
  svc worktrees cleanup "$ID" --force
  svc worktrees cleanup "$ID" --max-age-hours 72  # this one and all older ones

A worktree stays when a job uses it or when it has unpushed work. With --force
svc cancels the jobs and saves the work under a ref of the cached clone, which
it prints. Exit 1 when a named worktree stays.
`;
