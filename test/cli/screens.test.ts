import { spawnSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, test } from "vitest";
import { shellWord } from "../../src/view/sanitise.ts";
import { afterFile } from "../cleanup.ts";
import { compileCache } from "../compile-cache.ts";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { chunk, role, stop, text } from "./chat-stub.ts";
import { sampleBegin, sampleJob, sampleLog } from "./sample-job.ts";
import { json, stream, stubService } from "./stub-service.ts";

/** What a user sees on a real terminal of 60, 80 and 120 columns. */

const job = sampleJob({
  status: "succeeded",
  profile_rule: "SERVICE_DEFAULT_PROFILE",
  task: "Fix the failing date test: it fails only between midnight and two o'clock, and only in Berlin.",
  session_id: "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11",
  branch: "service/6f1c1a52",
  commit_sha: "9f2c1e7b5a3d4f60718293a4b5c6d7e8f9012345",
  diff_stat: { files: 2, insertions: 11, deletions: 1 },
  worktree_path: "/home/ana/.service/worktrees/6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d",
  warnings: [
    "The branch service/6f1c1a52 was pushed, but no pull request was opened: no token is set (GIT_HOST_TOKEN).",
  ],
  output:
    "The test compared local times. It now compares instants, and a second test covers the night of the change.",
  model: "claude-sonnet-5",
  num_turns: 7,
  cost_usd: 0.0668,
  duration_ms: 65_000,
  started_at: new Date(sampleBegin + 1000).toISOString(),
  ended_at: new Date(sampleBegin + 66_000).toISOString(),
  attempt: 1,
  exit_code: 0,
  stages: [
    { stage: "queued", at: new Date(sampleBegin).toISOString(), attempt: 0 },
    { stage: "pushed", at: new Date(sampleBegin + 65_000).toISOString(), attempt: 1 },
    { stage: "ended", at: new Date(sampleBegin + 66_000).toISOString(), attempt: 1 },
  ],
});

const failed = sampleJob({
  status: "failed",
  failure_reason: "timeout",
  retryable: false,
  error: "The agent ran for longer than 1800 s and was ended",
  branch: "service/6f1c1a52",
  session_id: job.session_id,
  salvage_ref: "refs/service/salvage/6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d",
  cached_clone: "/home/ana/service-repos/c165bd00dd87/repo.git",
  ended_at: job.ended_at,
});

const words =
  "The test compares local times, and the machine's zone decides whether it passes. I'll compare instants instead.";
const events = sampleLog(
  { type: "stage", stage: "queued", detail: null },
  { type: "stage", stage: "worktree_ready", detail: job.worktree_path },
  {
    type: "thinking",
    block: 0,
    text: "A date test that fails only at night smells of time zones. Which zone does the test take?",
  },
  { type: "text", block: 1, text: words },
  {
    type: "tool_use",
    id: "1",
    name: "Bash",
    input: { command: "TZ=Europe/Berlin npm test -- --grep 'the night of the change' --reporter dot --bail" },
    parent: null,
  },
  {
    type: "tool_use",
    id: "2",
    name: "Edit",
    input: { file_path: `${job.worktree_path}/src/date.js` },
    parent: null,
  },
  { type: "text", block: 2, text: job.output ?? "" },
  { type: "warning", message: job.warnings[0] ?? "" },
  { type: "stage", stage: "ended", detail: "succeeded" },
);

const jobs = [
  job,
  sampleJob({
    id: "c5c1d0de-0000-4000-8000-000000000001",
    status: "running",
    profile: "code",
    task: "Update the dependencies, and say for each what changed and what may break",
  }),
  sampleJob({
    ...failed,
    id: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
    profile: "review",
    task: "Review the error handling",
    repo_url: "https://github.com/acme/a-repository-with-a-long-name",
  }),
];

/** What becomes of the job that runs. */
let watched: "running" | "succeeded" = "running";

let environment: Record<string, string>;
let directory: string;
beforeAll(async () => {
  directory = await temporaryDirectory();
  afterFile(() => tmux("kill-server"));
  const { port } = await stubService({
    "POST /jobs": json(200, { success: true, job: sampleJob() }),
    [`GET /jobs/${job.id}`]: json(200, { success: true, job }),
    [`GET /jobs/${jobs[2]?.id}`]: json(200, { success: true, job: jobs[2] }),
    [`GET /jobs/${job.id}/events`]: stream(
      () => events,
      () => job,
    ),
    "GET /jobs": (request, response) =>
      // Ages are counted from now.
      json(200, {
        success: true,
        count: 3,
        next_cursor: null,
        jobs: jobs.map((each) => ({
          ...each,
          status: each.status === "running" ? watched : each.status,
          created_at: new Date(Date.now() - 12.5 * 60_000).toISOString(),
          started_at: new Date(Date.now() - 12.5 * 60_000).toISOString(),
          ended_at: each.ended_at && new Date(Date.now() - 11.5 * 60_000).toISOString(),
        })),
      })(request, response),
    "GET /v1/models": json(200, { object: "list", data: [{ id: "agent" }] }),
    "POST /v1/chat/completions": (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const pieces = [
        role,
        chunk({
          reasoning_content:
            "A date test that fails only at night smells of time zones. Which zone does it take?",
        }),
        ...words.split(/(?= )/).map(text),
        stop,
      ];
      for (const piece of pieces) response.write(`data: ${JSON.stringify(piece)}\n\n`);
      response.end("data: [DONE]\n\n");
    },
  });
  environment = {
    PATH: process.env["PATH"] ?? "",
    HOME: directory,
    LANG: "C.UTF-8",
    NODE_COMPILE_CACHE: compileCache,
    SERVICE_PORT: String(port),
  };
});

const tmux = (...args: string[]): string =>
  spawnSync("tmux", ["-S", join(directory, "tmux"), "-f", "/dev/null", ...args], {
    encoding: "utf8",
    env: environment,
  }).stdout;

/** What stands on a terminal of so many columns when the command has ended. */
const screen = async (name: string, columns: number, args: string): Promise<string> => {
  const done = join(directory, `${name}-${columns}`);
  const program = svcProgram.map(shellWord).join(" ");
  const script = `${program} ${args}; echo $? > ${done}; sleep 600`;
  const session = `${name}-${columns}`;
  tmux("new-session", "-d", "-s", session, "-x", String(columns), "-y", "160", "sh", "-c", script);
  await until(async () => (await readFile(done, "utf8").catch(() => "")) !== "");
  // The session stays: a tmux server ends with its last one, and the next start would meet one that is ending.
  const seen = tmux("capture-pane", "-p", "-t", session);
  return `${seen.trimEnd()}\n`;
};

/** What each says, however it is broken into lines. */
const screens: Record<string, [args: string, ...says: RegExp[]]> = {
  help: [
    "--help",
    /Tasks: run .* submit a task/,
    /Exit codes: 0 done/,
    /svc run "Fix the failing date test"/,
  ],
  jobs: ["jobs", /^ID STATUS .*TASK/, /6f1c1a52 succeeded .*Fix the failing/],
  job: [
    `job ${job.id}`,
    /Status succeeded .*Changes 2 files, \+11 −1/,
    /no pull request was opened: no token is set/,
    /Where the time went/,
    /It now compares instants/,
  ],
  "job-failed": [
    `job ${jobs[2]?.id}`,
    /Status failed \(timeout\)/,
    /What to do Split the task/,
    /svc continue 0b0f4a52/,
  ],
  wait: [
    `run "Fix the failing date test" --repo https://github.com/acme/app --wait`,
    /A date test that fails only at night/,
    /I'll compare instants instead/,
    /● Bash TZ=Europe\/Berlin/,
    /● Edit src\/date\.js/,
    /Status succeeded/,
  ],
  chat: [
    `chat --conversation night "Why does the date test fail?"`,
    /A date test that fails only at night/,
    /I'll compare instants instead/,
  ],
};

describe.each([60, 120])("on a terminal of %i columns", (columns) => {
  test.concurrent.for(Object.entries(screens))(
    "svc %s says what matters",
    async ([name, [args, ...says]], context) => {
      const seen = await screen(name, columns, args);
      const words = seen.replaceAll(/\n *│ /g, " ").replaceAll(/\s+/g, " ");
      for (const said of says) context.expect(words).toMatch(said);
    },
  );
});

/** A terminal in which the command runs, and then says its exit code. */
const session = (name: string, args: string) => {
  const program = svcProgram.map(shellWord).join(" ");
  const size = ["-x", "60", "-y", "12"];
  tmux(
    "new-session",
    "-d",
    "-s",
    name,
    ...size,
    "sh",
    "-c",
    `trap : INT; ${program} ${args}; echo code $?; sleep 600`,
  );
  const shows = (text: RegExp): Promise<string> =>
    until(async () => {
      const seen = tmux("capture-pane", "-p", "-t", name);
      if (!text.test(seen)) throw new Error(`not ${String(text)} in\n${seen}`);
      return seen;
    });
  return { shows, press: (...keys: string[]) => void tmux("send-keys", "-t", name, ...keys) };
};

test.concurrent("svc jobs --watch shows the list as it changes, and ends with Ctrl-C", async ({ expect }) => {
  const { shows, press } = session("watch", "jobs --watch");
  const before = await shows(/c5c1d0de +running/);
  watched = "succeeded";
  const after = await shows(/c5c1d0de +succeeded/);
  // It is drawn in the place of the one before.
  expect(after.match(/^ID /gm)).toHaveLength(1);
  expect(before.split("\n").filter((line) => line.length > 60)).toEqual([]);
  press("C-c");
  await shows(/code 130/);
});

test.concurrent("svc say to a job that has ended asks before it starts another", async ({ expect }) => {
  const { shows, press } = session("say", `say ${job.id} "Add a test"`);
  await shows(/has ended: start another one/);
  press("n", "Enter");
  expect(await shows(/code 1/)).toContain("Nothing was said");
});
