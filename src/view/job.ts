import { checkLines, isDraft, leftRed, redOutputs } from "./checks.ts";
import { isFinal, type Job } from "../contract/job.ts";
import { repositoryName } from "../contract/repository-url.ts";
import { faultOf, whyFailed } from "./advice.ts";
import { refusedLines, sandboxText } from "./sandbox.ts";
import { aligned, cut, factLines, list, warningsFact, wrap, type Fact } from "./columns.ts";
import { paintStatus, stateOf, type Layout, type Paint } from "./paint.ts";
import { age, bytes, cost, counted, cutText, duration } from "./quantities.ts";
import { oneLine, optional, sanitise } from "./sanitise.ts";
import { timeLines } from "./stages.ts";
import { messagesFact } from "./message.ts";
import { answerCommands, waitingFacts, waitingLine } from "./waiting.ts";

export const jobTable = (
  jobs: readonly Job[],
  { now, ...layout }: Layout & { now: number; below?: string[] },
): string =>
  list(
    jobs,
    [
      // The service lets no two jobs begin with the same eight digits.
      ["ID", ({ id }) => oneLine(id.slice(0, 8))],
      ["STATUS", (job) => paintStatus(stateOf(job), layout.paint) + markOf(job, layout)],
      [
        "OUTCOME",
        ({ outcome, failure_reason: why }) => (outcome ?? why)?.replaceAll("_", " ") ?? "–",
        { leaves: 3.5 },
      ],
      [
        "REPOSITORY",
        ({ repo_url: url }) => (url === "" ? "–" : oneLine(shortRepository(url))),
        { leaves: 4 },
      ],
      ["PROFILE", ({ profile: name }) => oneLine(name), { leaves: 1 }],
      ["AGE", ({ created_at: from }) => age(now - Date.parse(from)), { right: true, leaves: 5 }],
      ["DURATION", (job) => durationOf(job, now), { right: true, leaves: 3 }],
      ["COST", (job) => costOf(job) ?? "–", { right: true, leaves: 2 }],
      ["TASK", taskAndSummary],
    ],
    { empty: "No jobs found", ...layout },
  );

/** Stands beside the status of a job whose warnings should be read. */
const markOf = (job: Job, { paint }: Layout): string => (leftRed(job) === null ? "" : paint("yellow", " !"));

/** The task, why it failed, which checks are red as before, and what the agent asks or says it did. */
const taskAndSummary = (job: Job): string => {
  const said = waitingLine(job) ?? (job.summary && oneLine(cutText(job.summary, 500)));
  const shown = oneLine(cutText(job.task, 500));
  const more = [whyFailed(job), leftRed(job), said].filter(Boolean);
  return more.length > 0 ? [cut(shown, 60), ...more].join(" → ") : shown;
};

/** `acme/app` */
const shortRepository = (url: string): string => repositoryName(url).split("/").slice(-2).join("/");

const durationOf = ({ started_at: from, ended_at: to }: Job, now: number): string =>
  from === null ? "–" : duration(Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from)));

const costOf = ({ cost_usd: usd, cost_estimated: isEstimated }: Job): string | null =>
  usd === null ? null : cost(usd, isEstimated);

/** Everything about a job, as `svc job` shows it. */
export const jobPage = (job: Job, { now, ...layout }: Layout & { now: number }): string => {
  const { paint } = layout;
  const facts: Fact[] = [
    ["ID", job.id],
    ...outcomeFacts(job, layout),
    ...waitingFacts(job, shorten),
    messagesFact(job),
    ["Profile", profile(job)],
    ["Task", shorten(sanitise(job.task).trim()), "prose"],
    ["Repository", optional(job.repo_url)],
    ["Base", job.repo_url === "" ? null : optional(job.base_ref)],
    ["Options", optionsOf(job)],
    ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
    ...resultFacts(job, layout),
    ...effortFacts(job),
    ["Commit", optional(job.commit_sha)],
    ["Worktree", optional(job.worktree_path)],
    ["Session", optional(job.session_id)],
    ["Attempt", job.attempt > 1 ? String(job.attempt) : null],
    ["Instance", optional(job.pod_name)],
    ["Created", job.created_at],
    ["Started", job.started_at],
    ["Ended", job.ended_at],
    ["Next", nextCommands(job, layout)],
  ];
  const times = timeLines(job, now);
  const output = shorten(sanitise(job.output ?? "").trimEnd()).split("\n");
  const wrapped = (lines: string[]) => lines.flatMap((line) => wrap(line, layout.columns ?? Infinity));
  return [
    factLines(facts, layout),
    ...redOutputs(job).map(({ title, lines }) => [paint("bold", title), ...wrapped(lines)]),
    ...(times.length > 0 ? [[paint("bold", "Where the time went"), ...times]] : []),
    ...(job.output === null ? [] : [[paint("bold", "Output"), ...wrapped(output)]]),
  ]
    .map((lines) => lines.join("\n"))
    .join("\n\n");
};

/** The block at the end of `svc run --wait`: how it ended and what changed first, what to do next last. */
export const jobSummary = (job: Job, layout: Layout): string => {
  const quiet: Fact[] = [
    ["Job", job.id],
    ["Profile", profile(job)],
    ["Base", job.repo_url === "" ? null : optional(job.base_ref)],
    ...effortFacts(job),
  ];
  const facts: Fact[] = [
    ...outcomeFacts(job, layout),
    ...resultFacts(job, layout),
    ...quiet.map(([label, value]): Fact => [label, value && layout.paint("dim", value)]),
    ["Next", nextCommands(job, layout)],
  ];
  return factLines(facts, layout).join("\n");
};

/** Commands that a user is likely to need now, one a line. */
const nextCommands = (job: Job, { columns = Infinity }: Layout): string => {
  const { status, diff_stat: stat, salvage_ref: saved, session_id: session, failure_reason: reason } = job;
  const id = job.id.slice(0, 8);
  const instead = { clone_failed: " --repo URL", worktree_failed: " --base BRANCH" }[String(reason)];
  const isChanged = (stat?.files ?? 0) > 0 || saved !== null;
  const isLive = !isFinal(status);
  const goesOn = (...reasons: string[]): boolean => session !== null && reasons.includes(String(reason));
  const isUndelivered = goesOn("push_failed", "pr_failed");
  // A job that a crash has interrupted is continued.
  const isToRepeat = !isLive && status !== "succeeded" && !isUndelivered && !goesOn("instance_lost");
  const toGet = job.repo_url === "" ? `svc apply ${id}` : `svc checkout ${id}`;
  const commands: [command: string, meaning: string, isUseful: boolean][] = [
    [`svc logs -f ${id}`, "follow it", isLive],
    [`svc say ${id} "…"`, "tell its agent something", status === "running"],
    [`svc diff ${id}`, "see the change", isChanged],
    [`svc open ${id}`, isDraft(job) ? "the draft" : "the pull request", job.pr_url !== null],
    [toGet, "get the change", isChanged],
    [`svc files ${id}`, "see its files", job.files.length > 0],
    [`svc retry ${id}${job.retryable === true ? "" : (instead ?? "")}`, "submit it again", isToRepeat],
    [`svc continue ${id} --deliver`, "deliver its work", isUndelivered],
    [`svc continue ${id} "…"`, "tell the agent more", !isLive && session !== null],
  ];
  const useful = [...answerCommands(job), ...commands.filter(([, , isUseful]) => isUseful)];
  return aligned(
    useful.map(([command, meaning]) => (columns < 72 ? [command] : [command, `# ${meaning}`])),
  ).join("\n");
};

/** The options that the submission changed. */
const optionsOf = ({ options }: Job): string | null => {
  const set = Object.entries(options).filter(([, value]) => value !== null && String(value) !== "");
  return set.length === 0 ? null : oneLine(set.map(([name, value]) => `${name} ${String(value)}`).join(", "));
};

export const chosen = (job: Job): string =>
  [
    `profile ${profile(job)}`,
    ...(job.model === null ? [] : [`model ${oneLine(job.model)}`]),
    ...(job.repo_url === "" ? [] : [`base ${oneLine(job.base_ref)}`]),
  ].join(", ");

const profile = ({ profile: name, profile_rule: rule }: Pick<Job, "profile" | "profile_rule">): string =>
  oneLine(`${name} (${rule})`);

const filesText = ({ files }: Job): string =>
  `${counted(files.length, "file")}, ${bytes(files.reduce((sum, file) => sum + file.bytes, 0))}`;

/** `succeeded (tests was red before and still is)` */
export const statusText = (job: Job, paint: Paint): string => {
  const why = job.failure_reason ?? leftRed(job);
  return paint("bold", paintStatus(stateOf(job), paint)) + (why === null ? "" : ` (${oneLine(why)})`);
};

/** How it ended, and what to do when it failed. */
export const outcomeFacts = (job: Job, { paint }: Layout): Fact[] => {
  const { error, advice } = faultOf(job, "shell");
  return [
    ["Status", statusText(job, paint)],
    ["Outcome", job.outcome?.replaceAll("_", " ") ?? null],
    ["Summary", job.summary === null ? null : sanitise(job.summary), "prose"],
    ["Error", error, "prose"],
    ["What to do", advice, "prose"],
  ];
};

const resultFacts = (job: Job, { paint }: Layout): Fact[] => {
  const changed = changes(job);
  return [
    ["Changes", changed && paint("bold", changed)],
    [isDraft(job) ? "Draft" : "Pull request", optional(job.pr_url)],
    ["Branch", branch(job), "prose"],
    ["Also", job.repositories.map((further) => repositoryLine(job, further)).join("\n") || null, "prose"],
    ["Checks", checkLines(job).join("\n") || null, "prose"],
    ["Unfinished work", optional(job.salvage_ref)],
    ["Files", job.files.length === 0 ? null : filesText(job)],
    ["Refused", refusedLines(job).join("\n") || null, "prose"],
    warningsFact(job.warnings),
  ];
};

/** `acme/lib  https://github.com/acme/lib/pull/3` */
const repositoryLine = (
  { failure_reason }: Job,
  { repo_url: url, pr_url, branch: name, base_sha, commit_sha, error }: Job["repositories"][number],
): string => {
  const isSame = commit_sha !== null && commit_sha === base_sha && pr_url === null;
  const note = error ?? (isSame ? "no change" : isDraft({ failure_reason, pr_url }) ? "a draft" : null);
  return oneLine(`${shortRepository(url)} ${pr_url ?? name ?? ""} ${note === null ? "" : `(${note})`}`);
};

const effortFacts = (job: Job): Fact[] => [
  ["Model", optional(job.model)],
  ["Turns", job.num_turns === null ? null : String(job.num_turns)],
  ["Tokens", tokens(job)],
  ["Cost", costOf(job)],
  ["Setup", setupText(job)],
  ["Duration", job.duration_ms === null ? null : duration(job.duration_ms)],
  ["Sandbox", sandboxText(job)],
];

/** `12 s, cold, exit code 1` */
const setupText = ({ setup }: Job): string | null => {
  if (setup === null) return null;
  const { seconds, exit_code: code, cache, waited_seconds: waited } = setup;
  return [
    duration(seconds * 1000),
    ...(cache === "none" ? [] : [cache]),
    ...(waited === 0 ? [] : [`${duration(waited * 1000)} of it waiting`]),
    ...(code === null || code === 0 ? [] : [`exit code ${code}`]),
  ].join(", ");
};

/** Marks a branch that this job has not pushed: its name alone does not show that it is only here. */
const branch = ({ branch: name, stages, ended_at: ended, repositories, status }: Job): string | null => {
  if (name === null) return null;
  if (ended === null || stages.some(({ stage }) => stage === "pushed")) return oneLine(name);
  // Where another's work was pushed, and all went well, there was none here.
  const isUnchanged = status === "succeeded" && repositories.some(({ pr_url }) => pr_url !== null);
  return `${oneLine(name)}  (${isUnchanged ? "no change in this repository" : "not pushed by this job"})`;
};

const changes = ({ diff_stat: stat }: Job): string | null => {
  if (stat === null) return null;
  return stat.files === 0 ? "none" : `${counted(stat.files, "file")}, +${stat.insertions} −${stat.deletions}`;
};

const tokens = ({ usage }: Job): string | null => {
  if (usage === null) return null;
  const cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  return `${usage.input_tokens} in, ${usage.output_tokens} out, ${cached} cached`;
};

/** Characters of task and output that are shown; `--json` has all. */
const maxShown = 2000;

const shorten = (text: string): string => {
  if (text.length <= maxShown) return text;
  // Do not cut a character outside the basic plane in half.
  const head = text.slice(0, maxShown).replace(/[\uD800-\uDBFF]$/, "");
  return `${head}\n… ${text.length - head.length} more characters: svc job --json has them`;
};
