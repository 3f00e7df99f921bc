import type { Command } from "commander";
import type { Lazily } from "./commands.ts";
import { cleanupExamples, prepareExamples, worktreesExamples } from "./help.ts";
import { whole } from "./option-values.ts";

const json = ["--json", "print the service's answer as JSON"] as const;

/** `svc worktrees …` */
export const addWorktreeCommands = (program: Command, lazily: Lazily): void => {
  const worktrees = program
    .command("worktrees")
    .summary("prepare, list, show and remove worktrees")
    .description("Worktrees: prepare one to run tasks in, list and show them, remove them.")
    .usage("<command> [options]")
    .helpCommand("help [command]", "show help for a command")
    .addHelpText("after", worktreesExamples);
  worktrees
    .command("list")
    .summary("list them, oldest first")
    .description("List the worktrees on disk, oldest first: prepared ones and those of jobs.")
    .option(...json)
    .action(lazily(async () => (await import("./commands/worktrees-list.ts")).worktreesList));
  worktrees
    .command("show")
    .summary("show one, and how to get back what was saved of it")
    .description(
      "Show a worktree: status, branch, path, size, whether it is pushed, and what was saved of it.",
    )
    .argument("<worktree_id>", "id of the worktree")
    .option(...json)
    .action(lazily(async () => (await import("./commands/worktrees-show.ts")).worktreesShow));
  worktrees
    .command("prepare")
    .summary("clone and check out, to run tasks in later")
    .description(
      "Clone a repository and check out a worktree of it. Waits until it is ready, then prints its id, path and branch; where standard output is no terminal, the id alone.",
    )
    .argument("<url>", "git repository: an https or ssh URL, or a path")
    .option(
      "--base-ref <ref>",
      "branch or tag to base the work on (default: main, else the repository's default branch)",
    )
    .option("--json", "print the service's answer as JSON; only the final one")
    .addHelpText("after", prepareExamples)
    .action(lazily(async () => (await import("./commands/worktrees-prepare.ts")).worktreesPrepare));
  worktrees
    .command("cleanup")
    .summary("remove worktrees, by name or by age")
    .description(
      "Remove worktrees: all that are named, and with --max-age-hours all that are older, named or not.",
    )
    .argument("[worktrees...]", "paths or ids of worktrees")
    .option("--max-age-hours <hours>", "all that are older than this", whole(1, 876_000))
    .option("--force", "also those that a job uses or that hold unpushed work, which is saved first")
    .option("--dry-run", "only tell what would be removed")
    .option(...json)
    .addHelpText("after", cleanupExamples)
    .action(lazily(async () => (await import("./commands/worktrees-cleanup.ts")).worktreesCleanup));
};

/** `svc disk` */
export const addDiskCommand = (program: Command, lazily: Lazily): void => {
  program
    .command("disk")
    .summary("show what repositories take on disk, and what is free")
    .description("Show what each repository takes with its cached clone and worktrees, and what is free.")
    .option(...json)
    .action(lazily(async () => (await import("./commands/disk.ts")).disk));
};
