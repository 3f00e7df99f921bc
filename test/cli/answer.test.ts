import type { ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import type { Job, Waiting } from "../../src/contract/job.ts";
import { shellWord } from "../../src/view/sanitise.ts";
import { svcProgram } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { startTmux, type Terminal } from "../tui/terminal.ts";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { svc } from "./run-svc.ts";
import { sampleJob, sampleLog } from "./sample-job.ts";
import { json, stream, stubService } from "./stub-service.ts";

/* A job asks, and is answered: with svc answer, or where it is waited for. */

const question: Waiting = {
  kind: "question",
  id: "toolu_1",
  questions: [
    {
      question: "Which database?\u001b[2J",
      header: "Database",
      options: [
        { label: "SQLite", description: "A file" },
        { label: "Postgres", description: "A server\u001b]0;owned\u0007" },
      ],
      multi_select: false,
    },
  ],
  plan: null,
  asked_at: "2026-05-01T12:01:00.000Z",
  until: "2026-05-02T12:01:00.000Z",
};
const several: Waiting = {
  ...question,
  questions: question.questions.map((one) => ({ ...one, question: "Which ones?", multi_select: true })),
};
const plan: Waiting = {
  ...question,
  kind: "plan",
  id: "toolu_2",
  questions: [],
  plan: "# Plan\n\n1. Mend it",
};

const asking = (waiting: Waiting | null): Job =>
  sampleJob({ status: "running", attempt: 1, started_at: "2026-05-01T12:00:01.000Z", waiting });
const { id } = asking(null);
const log = sampleLog(
  { type: "stage", stage: "queued", detail: null },
  { type: "text", block: 1, text: "I have a question." },
  { type: "block_end", block: 1 },
);

/** A job that asks until it is answered, and then ends. `refusal`: what is answered to the answer. */
const start = async (waiting: Waiting | null, refusal?: string) => {
  const state = { job: asking(waiting) };
  const followers: ServerResponse[] = [];
  const end = (status: Job["status"]): void => {
    const ended = { success: true, job: sampleJob({ status }) };
    for (const one of followers) one.end(`event: end\ndata: ${JSON.stringify(ended)}\n\n`);
  };
  const body = () => ({ success: true, job: state.job });
  const stub = await stubService({
    "POST /jobs": (...given) => json(200, { ...body(), job: sampleJob() })(...given),
    [`GET /jobs/${id}`]: (...given) => json(200, body())(...given),
    // Held as the service holds it, until there is something to tell.
    [`GET /jobs/${id}/wait`]: (...given) => {
      if (state.job.waiting !== null) json(200, body())(...given);
    },
    [`GET /jobs/${id}/events`]: (request, response) => {
      const isFollowed = !request.url.includes("follow=false");
      if (isFollowed) followers.push(response);
      stream(
        () => log,
        () => (isFollowed ? null : state.job),
      )(request, response);
    },
    [`POST /jobs/${id}/answer`]: (...given) => {
      if (refusal !== undefined)
        return json(409, { success: false, error: refusal, code: "question_changed" })(...given);
      state.job = { ...state.job, waiting: null };
      json(200, body())(...given);
      end("succeeded");
    },
  });
  const sent = (): unknown => {
    const asked = stub.requests.find(({ url }) => url.endsWith("/answer"));
    return asked && JSON.parse(asked.body);
  };
  return { env: { SERVICE_PORT: String(stub.port) }, sent, state, end };
};

describe("svc answer", () => {
  test.each<[string[], Waiting, object]>([
    [["In memory"], question, { text: "In memory" }],
    [["--choice", "2"], question, { answers: { "Which database?\u001b[2J": "Postgres" } }],
    [["--choice", "1", "--choice", "2"], several, { answers: { "Which ones?": ["SQLite", "Postgres"] } }],
    [["--approve"], plan, { approve: true, feedback: "" }],
    [["And test it", "--approve"], plan, { approve: true, feedback: "And test it" }],
    [["--send-back", "Smaller steps"], plan, { approve: false, feedback: "Smaller steps" }],
    [["--refuse"], plan, { approve: false }],
  ])("%j sends the id of what it saw, and the answer", async (words, waiting, sent) => {
    const service = await start(waiting);
    const { code, stdout } = await svc(["answer", id, ...words], service);
    expect(service.sent()).toEqual({ id: waiting.id, ...sent });
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: "The answer is stored, and the agent of job 6f1c1a52 gets it\n",
    });
  });

  test("takes texts from files and standard input", async () => {
    const file = join(await temporaryDirectory(), "plan.md");
    await writeFile(file, "# Better\n");
    const first = await start(plan);
    await svc(["answer", id, "--approve", "--plan", file], first);
    expect(first.sent()).toEqual({ id: plan.id, approve: true, feedback: "", plan: "# Better\n" });
    const second = await start(question);
    await svc(["answer", id, "--file", "-"], { ...second, input: "One file\nper tenant\n" });
    expect(second.sent()).toEqual({ id: question.id, text: "One file\nper tenant" });
  });

  test("in a pipe without an answer shows what is asked, and how to answer", async () => {
    const service = await start(question);
    const { code, stderr } = await svc(["answer", id], service);
    expect(stderr).toBe(
      [
        "svc: Job 6f1c1a52 waits for an answer:",
        "Which database?",
        "  1  SQLite    A file",
        "  2  Postgres  A server",
        'Answer it:  svc answer 6f1c1a52 "…"',
        "or:  svc answer 6f1c1a52 --choice 1",
        "",
      ].join("\n"),
    );
    expect({ code, sent: service.sent() }).toEqual({ code: 2, sent: undefined });
  });

  test.each<[string[], Waiting | null, RegExp, number]>([
    [[], null, /waits for no answer, it is running: svc job 6f1c1a52 shows it$/m, 1],
    [["--choice", "3"], question, /There is no option 3: the question has 2 options/, 2],
    [["--choice", "1", "--choice", "2"], question, /One option of this question can be chosen/, 2],
    [["--choice", "x"], question, /It must be a whole number from 1 to 100/, 2],
    [
      ["words"],
      plan,
      /its plan to be approved:\n# Plan\n\n1. Mend it\nAnswer it:  svc answer 6f1c1a52 --approve/,
      2,
    ],
    [["--approve", "--refuse"], plan, /Give one of --approve and --refuse/, 2],
    [["--refuse", "--plan", "x"], plan, /--plan is the plan to go on by: it goes with --approve/, 2],
    [["--file", "/nonexistent/x"], question, /--file \/nonexistent\/x: it cannot be read/, 2],
    [[" "], question, /The answer is empty/, 2],
  ])("%j is refused, and says what to do", async (words, waiting, said, exit) => {
    const service = await start(waiting);
    const { code, stderr } = await svc(["answer", id, ...words], service);
    expect(stderr).toMatch(said);
    expect({ code, sent: service.sent() }).toEqual({ code: exit, sent: undefined });
  });
});

describe("in a pipe, who waits is told", () => {
  const line = /^Answer it: {2}svc answer 6f1c1a52 "…"/m;

  test.each([
    ["run", "x", "-r", ".", "--wait"],
    ["logs", "-f", id],
    ["wait", id],
    ["logs", "-f", id, "--json"],
  ])("by %s %s with exit code 4 and the line that answers", async (...args) => {
    const { code, stdout, stderr } = await svc(args, await start(question));
    expect({ code, stderr }).toEqual({ code: 4, stderr: expect.stringMatching(line) });
    expect(stdout).toContain(args[0] === "wait" ? `${id}  waiting\n` : "I have a question.");
    expect(stdout + stderr).not.toContain("\u001b");
  });

  test("by svc run --wait --json with the job as it is", async () => {
    const { env, state } = await start(question);
    const { code, stdout } = await svc(["run", "x", "-r", ".", "--wait", "--json"], { env });
    expect(JSON.parse(stdout)).toEqual({ success: true, job: state.job });
    expect(code).toBe(4);
  });
});

describe("on a terminal", async () => {
  const tmux = await startTmux();
  const open = (args: string[], env: Record<string, string>): Promise<Terminal> => {
    const command = [...svcProgram, ...args].map(shellWord).join(" ");
    return tmux.open({ env, columns: 100, rows: 40, script: `${command}; echo "exit $?"; sleep 600` });
  };

  test("svc run --wait asks there and then, again until it understands, and goes on", async () => {
    const service = await start(question);
    const terminal = await open(["run", "x", "-r", ".", "--wait"], service.env);
    await terminal.shows(
      "I have a question.",
      "Which database?",
      "2  Postgres  A server",
      "A number, or own words",
    );
    await terminal.type("3");
    await terminal.press("Enter");
    await terminal.shows("There is no option 3");
    await terminal.type("2");
    await terminal.press("Enter");
    await terminal.shows("succeeded", "exit 0");
    expect(service.sent()).toMatchObject({
      id: question.id,
      answers: { "Which database?\u001b[2J": "Postgres" },
    });
  });

  test("who leaves the question is told how to answer later", async () => {
    const terminal = await open(["run", "x", "-r", ".", "--wait"], (await start(question)).env);
    await terminal.shows("A number, or own words");
    await terminal.press("C-c");
    await terminal.shows("Answer it:", "exit 4");
  });

  test("the job ends meanwhile, and that is the end of the question", async () => {
    const service = await start(question);
    const terminal = await open(["logs", "-f", id], service.env);
    await terminal.shows("A number, or own words");
    service.end("cancelled");
    await terminal.shows("cancelled", "exit 1");
  });

  test("somebody else answers meanwhile, and it goes on", async () => {
    const service = await start(question);
    const terminal = await open(["logs", "-f", id], service.env);
    await terminal.shows("A number, or own words");
    service.state.job = asking(null);
    await terminal.shows("somebody else has answered", "waiting for its turn");
  });

  test("svc answer asks about a plan, and words send it back", async () => {
    const service = await start(plan);
    const terminal = await open(["answer", id], service.env);
    await terminal.shows("1. Mend it", "1  Approve", "3  Refuse: the job ends");
    await terminal.type("Smaller steps");
    await terminal.press("Enter");
    await terminal.shows("The answer is stored", "exit 0");
    expect(service.sent()).toEqual({ id: plan.id, approve: false, feedback: "Smaller steps" });
  });
});
