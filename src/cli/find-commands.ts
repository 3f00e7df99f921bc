import { InvalidArgumentError, Option, type Command } from "commander";
import { jobStatuses } from "../contract/job.ts";
import { examples, json, whole, type Lazily } from "./options.ts";

/** `svc jobs` */
export const addJobsCommand = (program: Command, lazily: Lazily): void => {
  const only = "list only jobs";
  program
    .command("jobs")
    .aliases(["ls", "ps"])
    .summary("list jobs, newest first")
    .description("List jobs, newest first; below them how many wait, and what each instance runs.")
    .option("-n, --limit <number>", "list at most this many, 1 to 1000", whole(1, 1000), 20)
    .addOption(
      new Option("-s, --status <status>", `${only} of this status; active: queued or running`).choices([
        ...jobStatuses,
        "active",
        "all",
      ]),
    )
    .addOption(
      new Option("--active", "the same as --status active")

        .conflicts(["status", "failed"]),
    )
    .addOption(new Option("--failed", "the same as --status failed").conflicts("status"))
    .option("-r, --repo <repository>", `${only} of this repository: its URL or path, or acme/app`)
    .option("-p, --profile <name>", `${only} with this profile`)
    .option("--since <time>", `${only} submitted since then: 30m, 2h, 3d, a date or an instant`, instant)
    .option("--search <words>", `${only} with each of these words in the task`)
    .option("--session <id>", `${only} of this agent session`)
    .option("--cursor <cursor>", "continue where the previous list ended")
    .option("-q, --quiet", "print ids only, whole")
    .addOption(
      new Option("--watch", "show the list until interrupted, redrawn every 2 s").conflicts([
        "json",
        "quiet",
      ]),
    )
    .option(...json)
    .addHelpText(
      ...examples(
        "svc jobs --active --watch",
        "svc jobs --failed --since 2d -r acme/app",
        'svc jobs --search "date test"',
      ),
    )
    .action(lazily(async () => (await import("./commands/jobs.ts")).jobs));
};

/** Reads `--since`. A time without a zone is local, a date alone is in UTC. */
const instant = (text: string): string => {
  const [, count, unit = ""] = /^(\d{1,6}) *([mhdw])$/.exec(text) ?? [];
  if (count !== undefined)
    return new Date(Date.now() - Number(count) * (milliseconds[unit] ?? 0)).toISOString();
  if (!/^\d{4}-\d\d-\d\d([T ].+)?$/.test(text) || Number.isNaN(Date.parse(text)))
    throw new InvalidArgumentError("It must be a time such as 30m, 2h, 3d, 2026-03-02 or 2026-03-02T09:15.");
  return text.length === 10 ? text : new Date(text).toISOString();
};

const milliseconds: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
