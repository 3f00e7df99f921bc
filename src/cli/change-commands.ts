import type { Command } from "commander";
import { examples, jobId, jobIdOrLatest, json, type Lazily } from "./options.ts";

/** Commands that show the change of a job, or bring it into the current checkout. */
export const addChangeCommands = (program: Command, lazily: Lazily): void => {
  program
    .command("diff")
    .summary("show what a job has changed")
    .description("Show what a job has changed, also while it runs. Piped, it is a patch for git apply.")
    .argument(...jobIdOrLatest)
    .option("--stat", "show the number of changed lines of each file")
    .option("--name-only", "show the paths of the changed files")
    .option(...json)
    .addHelpText(...examples("svc diff", "svc diff 6f1c --stat", "svc diff 6f1c > change.patch"))
    .action(lazily(async () => (await import("./commands/diff.ts")).diff));
  program
    .command("checkout")
    .summary("switch to a job's branch in this checkout")
    .description(
      "Fetch a job's branch into the checkout of its repository in the current directory, and switch to it. Commits and uncommitted work of yours stay.",
    )
    .argument(...jobIdOrLatest)
    .addHelpText(...examples("svc checkout", "svc checkout 6f1c"))
    .action(lazily(async () => (await import("./commands/checkout.ts")).checkout));
  program
    .command("apply")
    .summary("apply a job's change to this checkout")
    .description(
      "Apply a job's change to the checkout in the current directory, as uncommitted edits. Where both changed the same lines, git marks the conflict.",
    )
    .argument(...jobId)
    .addHelpText(...examples("svc apply latest"))
    .action(lazily(async () => (await import("./commands/diff.ts")).apply));
};
