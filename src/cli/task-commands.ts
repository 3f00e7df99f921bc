import { InvalidArgumentError, Option, type Command } from "commander";
import { examples, gathered, jobId, jobIdOrLatest, json, whole, type Lazily } from "./options.ts";

/** `svc run`, and the commands on one job that follow or repeat it. */
export const addRunCommands = (program: Command, lazily: Lazily): void => {
  program.commandsGroup("Tasks:");
  const run = program
    .command("run")
    .summary("submit a task")
    .description(
      "Submit a task to the service. Prints the job's id at once; with --wait also what happens until the job has ended. In a git checkout, the repository and the branch are those of the checkout unless --repo names another.",
    )
    .argument("[task]", "what the agent is to do, in plain words; - reads it from standard input")
    .option("-r, --repo <url>", "git repository: an https or ssh URL, a path, or acme/app")
    .option("--no-repo", "run in an empty directory, also in a checkout")
    .option(
      "-p, --profile <name>",
      "profile to run with; auto: the match rules of your profiles choose",
      "auto",
    )
    .option("--also <url[@ref]>", "further repository to work in; can be repeated", gathered)
    .option(
      "--base, --base-ref <ref>",
      "branch or tag to base the work on (default: the checkout's, main, else the default branch)",
    )
    .option("--worktree-id <id>", "worktree to run in, with its repository: leave out --repo")
    .option("--session-id <id>", "agent session to resume")
    .option("--create-repo", "create the repository on the git host if it is missing")
    .option("--public", "create it public; private without this")
    .option("--idempotency-key <key>", "submit once: the same key and task give the same job");
  nameOptions(submitOptions(run))
    .addHelpText("after", runExamples)
    .action(lazily(async () => (await import("./commands/run.ts")).run));
  program
    .command("setup")
    .summary("try the setup of a repository")
    .description(
      "Make a worktree ready as for a job, with what .svc/setup.yml or the profile says, and show how it goes; no agent is started, and the worktree is removed. Exit 0 only if it went well.",
    )
    .option("-r, --repo <url>", "git repository; in a checkout, that of the checkout")
    .option("-p, --profile <name>", "profile whose setup and sandbox it has", "auto")
    .option("--base, --base-ref <ref>", "branch or tag to set up (default: as for svc run)")
    .option(...json)
    .addHelpText(...examples("svc setup --repo acme/app", "svc setup -p code --base v2"))
    .action(lazily(async () => (await import("./commands/setup.ts")).setup));
  const retry = program
    .command("retry")
    .summary("submit the task of a job again")
    .description(
      "Submit the task of a job that has ended again: with its repository and base, and its profile and options unless given here. Attached files and --file-path must be given again.",
    )
    .argument(...jobId)
    .option("-p, --profile <name>", "another profile")
    .option("-r, --repo <url>", "another repository")
    .option("--base, --base-ref <ref>", "another base");
  nameOptions(submitOptions(retry))
    .addHelpText(...examples("svc retry latest", "svc retry 6f1c -p review --model opus --wait"))
    .action(lazily(async () => (await import("./commands/again.ts")).retry));
  const resume = program
    .command("continue")
    .summary("give the agent of a job another task")
    .description(
      "Submit another task for the agent that ran a job: it remembers what it did, and works on in the same worktree and branch.",
    )
    .argument(...jobId)
    .argument("[task]", "what the agent is to do next; - reads it from standard input")
    .option("-p, --profile <name>", "another profile")
    .option("--base, --base-ref <ref>", "another branch for the pull request to go to")
    .option("--deliver", "deliver the work as it is: push it, open the pull request, start no agent");
  submitOptions(resume)
    .addHelpText(
      ...examples('svc continue latest "Now add a test" --wait', "svc continue latest --deliver --base main"),
    )
    .action(lazily(async () => (await import("./commands/again.ts")).continueJob));
  program
    .command("answer")
    .summary("answer what a job's agent asks")
    .description(
      "Answer the question or the plan that a job waits with: its agent goes on. On a terminal without an answer, svc shows what is asked, and asks you.",
    )
    .argument(...jobId)
    .argument("[text]", "the answer to the first question, in own words; with --approve: words for the agent")
    .option("--choice <number>", "option of the first question, from 1; can be repeated for several", numbers)
    .option("--file <path>", "take the answer from a text file; - reads it from standard input")
    .option("--approve", "approve the plan")
    .option("--plan <path>", "with --approve: a file with the plan, in place of the agent's")
    .option("--send-back <text>", "reject the plan and tell the agent what to change")
    .option("--refuse", "reject the plan and end the job")
    .option(...json)
    .addHelpText(
      ...examples(
        "svc answer latest",
        'svc answer 6f1c "SQLite, in memory"',
        "svc answer 6f1c --choice 2",
        'svc answer 6f1c --send-back "Keep the old endpoint"',
      ),
    )
    .action(lazily(async () => (await import("./commands/answer.ts")).answer));
  program
    .command("say")
    .summary("say something to a job's agent while it works")
    .description(
      "Say something to the agent of a job that has not ended: it goes on with it, and nothing is stopped. A job that has ended is continued by another one, as with svc continue.",
    )
    .argument(...jobId)
    .argument("[text]", "what to say, in plain words; - reads it from standard input")
    .addOption(new Option("--now", "interrupt the agent").conflicts("later"))
    .option("--later", "wait until the agent is done with all else")
    .addOption(
      new Option("--take-back <id>", "take a message back that the agent has not heard").conflicts([
        "now",
        "later",
      ]),
    )
    .option("--idempotency-key <key>", "say it once: the same key and text give the same message")
    .option(...json)
    .addHelpText(
      ...examples(
        'svc say latest "Keep the old endpoint, too"',
        'svc say 6f1c --now "Stop: not in the public API"',
        "svc say 6f1c --take-back 7c2f1f0e",
      ),
    )
    .action(lazily(async () => (await import("./commands/say.ts")).say));
  program
    .command("logs")
    .summary("show what a job's agent did so far")
    .description("Show what happened in a job so far, a line each; with --follow until it has ended.")
    .argument(...jobIdOrLatest)
    .option("-f, --follow", "go on until the job has ended; exit 0 only if it succeeded")
    .option("--json", "print one event a line")
    .addHelpText(...examples("svc logs -f"))
    .action(lazily(async () => (await import("./commands/follow.ts")).logs));
  program
    .command("wait")
    .summary("wait until jobs have ended")
    .description(
      "Wait until all these jobs have ended, or one asks; a line for each. Exit 0 only if all succeeded, 4 if one waits for an answer.",
    )
    .argument("[job_ids...]", jobIdOrLatest[1], [jobIdOrLatest[2]])
    .option("--json", "print one job a line")
    .addHelpText(...examples("svc wait 6f1c c5c1 && echo both succeeded"))
    .action(lazily(async () => (await import("./commands/follow.ts")).wait));
  program
    .command("open")
    .summary("open a job in the browser")
    .description(
      "Open a job's pull request in the browser ($BROWSER), or its page of the service while it has none; without an ID the page of all jobs. Where there is no browser, print the URL.",
    )
    .argument("[job_id]", jobId[1])
    .option("--page", "the job's page, also when it has a pull request")
    .addHelpText(...examples("svc open latest"))
    .action(lazily(async () => (await import("./commands/follow.ts")).open));
  program
    .command("diff")
    .summary("show what a job has changed")
    .description("Show what a job has changed, also while it runs. Piped, it is a patch for git apply.")
    .argument(...jobIdOrLatest)
    .option("--stat", "show the number of changed lines of each file")
    .option("--name-only", "show the paths of the changed files")
    .option("--repository <name>", "show the change of this one of the job's repositories (default: of all)")
    .option(...json)
    .addHelpText(...examples("svc diff", "svc diff 6f1c --stat", "svc diff 6f1c > change.patch"))
    .action(lazily(async () => (await import("./commands/diff.ts")).diff));
  program
    .command("files")
    .summary("list or get the files that a job has left")
    .description(
      "List the files that a job's agent left in .svc/out; with a path, get that file, into the current directory under its own name.",
    )
    .argument(...jobIdOrLatest)
    .argument("[path]", "one of the files listed")
    .option("-o, --output <file>", "write it there; - writes it to standard output")
    .option("-f, --force", "replace a file that exists")
    .option(...json)
    .addHelpText(
      ...examples(
        "svc files latest",
        "svc files 6f1c report.pdf",
        "svc files 6f1c plots/a.png -o - | display",
      ),
    )
    .action(lazily(async () => (await import("./commands/files.ts")).files));
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

/** What every submission takes. */
const submitOptions = (command: Command): Command =>
  command
    .option("-w, --wait", "follow the job until it has ended; exit 0 only if it succeeded")
    .option("-e, --editor", "write the task in your editor ($EDITOR)")
    .option(
      "--attach <file>",
      "file for the agent: a picture or PDF is shown to it, another is in .svc/in; can be repeated",
      gathered,
    )
    .option("--model <name>", "model in place of the profile's: opus, sonnet, haiku or a full name")
    .option("--timeout <time>", "end the agent after this time: 90s, 30m, 2h", seconds)
    .option("--budget <usd>", "end the agent when it has spent this many US dollars", dollars)
    .option("--max-turns <number>", "end the agent after this many calls of the model", whole(1, 1_000_000))
    .option("--plan", "let a person approve the agent's plan before it works")
    .option("--check <command>", "run this on the work, and have red mended; can be repeated", gathered)
    .option("--must-pass", "fail the job for checks that stay red, also those that were red before")
    .option("--submodules", "check out submodules, too")
    .option("--recurse-submodules", "check out submodules and theirs, too")
    .option("--lfs", "download files that are in Git LFS")
    .option("--allow-host <name>", "host that the agent may reach besides; can be repeated", gathered)
    .option("--file-path <path>", "MCP configuration on the shared file system to add to the job's")
    .option("--json", "print the service's answer as JSON; with --wait only the final one");

const nameOptions = (command: Command): Command =>
  command
    .option("--branch <name>", "name of the job's branch (default: service/ID)")
    .option("--title <text>", "title of the pull request (default: the task's first line)");

const numbers = (text: string, before: number[] = []): number[] => [...before, whole(1, 100)(text)];

const units = { s: 1, m: 60, h: 3600 };

const seconds = (text: string): number => {
  const [, count, unit = "s"] = /^(\d{1,9})([smh])?$/.exec(text) ?? [];
  const value = Number(count) * units[unit as keyof typeof units];
  if (!(value >= 1 && value <= 604_800))
    throw new InvalidArgumentError("It must be a time of at most seven days, such as 90s, 30m or 2h.");
  return value;
};

const dollars = (text: string): number => {
  const value = Number(text.replace(/^\$/, ""));
  if (!(value > 0 && value <= 1_000_000))
    throw new InvalidArgumentError("It must be an amount in US dollars, such as 2.50.");
  return value;
};

const runExamples = `
Examples:
  svc run "Fix the failing date test" --wait        # in a checkout
  svc run "Fix the failing date test" --repo acme/app --wait
  svc run "Fix the failing date test" --check "npm test" --wait
  svc run "Review the error handling" -p review --model opus --timeout 30m
  svc run "Make it look like this" --attach sketch.png --branch new-look
  svc run - -r git@github.com:acme/app.git < task.md
  svc run -r . -- "-O3 breaks the build: find out why"
`;
