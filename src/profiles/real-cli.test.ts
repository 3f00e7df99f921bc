import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { AgentLaunch } from "../agents/agent.ts";
import { custom, jobId, launchOf, request, setup } from "./profiles.fixture.ts";

const cli = join(import.meta.dirname, "../../node_modules/.bin/claude");
const git = promisify(execFile);

/** A model that asks for one tool, then is done; it keeps what it was sent. */
const startModel = async (tool: { name: string; input: Record<string, unknown> }) => {
  const bodies: string[] = [];
  const server = createServer((incoming, answer) => {
    void text(incoming).then((body) => {
      if (incoming.method !== "POST") return answer.writeHead(404).end();
      const asked = body.includes('"tool_result"');
      bodies.push(body);
      return answer.writeHead(200, { "content-type": "text/event-stream" }).end(asked ? done : wants(tool));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  afterAll(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies };
};

const stream = (block: Record<string, unknown>, delta: Record<string, unknown>, reason: string): string =>
  [
    {
      type: "message_start",
      message: {
        id: "msg_1",
        type: "message",
        role: "assistant",
        model: "m",
        content: [],
        stop_reason: null,
        usage: { input_tokens: 1, output_tokens: 1 },
      },
    },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: reason }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ]
    .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join("");

const wants = ({ name, input }: { name: string; input: Record<string, unknown> }): string =>
  stream(
    { type: "tool_use", id: "toolu_1", name, input: {} },
    { type: "input_json_delta", partial_json: JSON.stringify(input) },
    "tool_use",
  );
const done = stream({ type: "text", text: "" }, { type: "text_delta", text: "done" }, "end_turn");

/** A repository with one worktree, as the service makes them. */
const startRepository = async () => {
  const directory = await temporaryDirectory();
  const main = join(directory, "main");
  const worktree = join(directory, "work trees", "it's one");
  const identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"];
  await git("git", ["init", "-q", main]);
  await git("git", ["-C", main, ...identity, "commit", "-q", "--allow-empty", "-m", "first"]);
  await git("git", ["-C", main, "worktree", "add", "-q", "-b", "job", worktree]);
  return { main, worktree };
};

const run = async (launch: AgentLaunch, cwd: string, modelUrl: string) => {
  const { configDir, args, settingsFile, worktreeName } = launch;
  const child = spawn(
    cli,
    [
      "-p",
      ...args,
      ...(settingsFile === null ? [] : ["--settings", settingsFile]),
      ...(worktreeName === null ? [] : ["--worktree", worktreeName]),
      "--add-dir",
      cwd,
      ..."--output-format stream-json --verbose --setting-sources user --strict-mcp-config".split(" "),
      "--session-id",
      jobId,
    ],
    {
      cwd,
      stdio: ["pipe", "pipe", "pipe"],
      env: {
        PATH: process.env.PATH ?? "",
        HOME: dirname(configDir),
        CLAUDE_CONFIG_DIR: configDir,
        ANTHROPIC_BASE_URL: modelUrl,
        ANTHROPIC_AUTH_TOKEN: "none",
        IS_SANDBOX: "1",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1",
        CLAUDE_CODE_MAX_RETRIES: "0",
      },
    },
  );
  child.stdin.end("do it");
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, "close")]);
  const events = stdout
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
  expect({ stderr, last: events.at(-1) }).toMatchObject({ last: { type: "result", is_error: false } });
  return events.find(({ subtype }) => subtype === "init");
};

it("the real CLI takes a materialised profile as it is meant", async () => {
  const model = await startModel({
    name: "Bash",
    input: { command: "echo made > made.txt", description: "make" },
  });
  const { main, worktree } = await startRepository();
  const { profiles, shared } = await setup({
    [custom("full/profile.yml")]:
      "extends: code\nclaude: {model: opus, append_system_prompt: '--help be-brief', disallowed_tools: [WebFetch, 'Task']}",
    // Without the service's own settings on top this would switch the worktree hook off.
    [custom("full/.claude/settings.json")]: '{"disableAllHooks": true}',
    [custom("full/.claude/CLAUDE.md")]: "always-be-kind",
    [custom("full/.claude/agents/helper.md")]: "---\nname: helper\ndescription: helps\n---\nHelp.",
    [custom("full/.claude/skills/deploy/SKILL.md")]: "---\nname: deploy\ndescription: deploys\n---\nDeploy.",
  });
  const launch = await launchOf(profiles, { ...request("full"), worktreePath: worktree });
  const init = await run(launch, worktree, model.url);
  expect(init).toMatchObject({ cwd: worktree, permissionMode: "bypassPermissions", session_id: jobId });
  expect(init?.model).toMatch(/opus/);
  expect(init?.agents).toContain("helper");
  expect(init?.skills).toContain("deploy");
  for (const tool of ["WebFetch", "EnterWorktree", "ExitWorktree"]) expect(init?.tools).not.toContain(tool);
  expect(model.bodies[0]).toContain("always-be-kind");
  expect(model.bodies[0]).toContain("--help be-brief");
  expect(await readFile(join(worktree, "made.txt"), "utf8")).toBe("made\n");
  const { stdout } = await git("git", ["-C", main, "worktree", "list", "--porcelain"]);
  expect(stdout.match(/^worktree /gm)).toHaveLength(2);
  const transcript = await profiles.findTranscript(jobId);
  expect(transcript).toMatch(new RegExp(`^${shared}/projects/[^/]+/${jobId}\\.jsonl$`));
  await profiles.discard(jobId);
  expect(await readFile(transcript ?? "", "utf8")).toContain(jobId);
});

it.each([
  ["Write", (worktree: string) => ({ file_path: join(worktree, "made.txt"), content: "made" })],
  ["Bash", () => ({ command: "echo made > made.txt", description: "make" })],
])("with the bundled reviewer the real CLI cannot write with %s", async (name, input) => {
  const { worktree } = await startRepository();
  const model = await startModel({ name, input: input(worktree) });
  const { profiles } = await setup();
  const launch = await launchOf(profiles, { ...request("review"), worktreePath: worktree });
  const init = await run(launch, worktree, model.url);
  expect(init).toMatchObject({ tools: ["Glob", "Grep", "Read"], permissionMode: "dontAsk", cwd: worktree });
  expect(model.bodies).toHaveLength(2);
  expect(await readdir(worktree)).toEqual([".git"]);
});

it("with the bundled reviewer the real CLI cannot read outside the worktree", async () => {
  const { worktree } = await startRepository();
  const { profiles, home } = await setup({ "home/token": "canary" });
  const model = await startModel({ name: "Read", input: { file_path: join(home, "token") } });
  await run(await launchOf(profiles, { ...request("review"), worktreePath: worktree }), worktree, model.url);
  expect(model.bodies).toHaveLength(2);
  expect(model.bodies[1]).not.toContain("canary");
});

it("with the bundled reviewer the real CLI can read the files of the task", async () => {
  const { worktree } = await startRepository();
  const { profiles, shared } = await setup();
  const file = join(shared, "jobs", jobId, "task-files", "log.txt");
  const model = await startModel({ name: "Read", input: { file_path: file } });
  const taskFiles = [{ name: "log.txt", content: "canary", encoding: "utf-8" as const }];
  const launch = await launchOf(profiles, { ...request("review"), worktreePath: worktree, taskFiles });
  await run(launch, worktree, model.url);
  expect(model.bodies[1]).toContain("canary");
});

it("with an empty list of tools the real CLI offers none", async () => {
  const { worktree } = await startRepository();
  const model = await startModel({ name: "Read", input: { file_path: "/etc/hostname" } });
  const { profiles } = await setup({ [custom("talk.yml")]: "claude: {tools: [], worktree: false}" });
  const init = await run(await launchOf(profiles, request("talk")), worktree, model.url);
  expect(init?.tools).toEqual([]);
});
