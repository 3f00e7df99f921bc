import type { Command } from "commander";
import type { Lazily } from "./commands.ts";
import { drainEnd, initSharedFsEnd } from "./help.ts";
import { whole } from "./option-values.ts";

/** `svc drain` */
export const addDrainCommand = (program: Command, lazily: Lazily): void => {
  program
    .command("drain")
    .summary("let this instance take no new jobs, and wait for those it runs")
    .description(
      "Let the instance of this name (SERVICE_POD_NAME, else the host's name) take no new jobs, and wait until it runs none. Exit 0 when it runs none, 1 when jobs are left.",
    )
    .option("--timeout <seconds>", "how long to wait, 1 to 86400", whole(1, 86_400), 300)
    .addHelpText("after", drainEnd)
    .action(lazily(async () => (await import("./commands/drain.ts")).drain));
};

/** `svc init-shared-fs` */
export const addInitSharedFsCommand = (program: Command, lazily: Lazily): void => {
  program
    .command("init-shared-fs")
    .summary("lay out a file system that instances share")
    .description(
      "Create profiles/ (with the bundled profiles copied in), repos/, jobs/ and job-state/ under the shared root. What is there is left as it is.",
    )
    .option("--shared-root <directory>", "where (default: SERVICE_SHARED_FS_ROOT)")
    .option("--json", "print what was made as JSON")
    .addHelpText("after", initSharedFsEnd)
    .action(lazily(async () => (await import("./commands/init-shared-fs.ts")).initSharedFsCommand));
};
