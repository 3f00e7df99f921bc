import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text as readAll } from "node:stream/consumers";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { message, text, toolUse } from "../../test/fake-model/answer.ts";
import { bothClis } from "../../test/agent-clis.ts";
import { startFakeModel } from "../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { AgentLaunch } from "../agents/agent.ts";
import { askVersion, capabilitiesOf } from "../agents/claude/version.ts";
import { giveFiles } from "../store/kept-files.ts";
import { custom, jobId, launchOf, request, setup } from "./profiles.fixture.ts";

const git = promisify(execFile);

/** A model that asks for these tools at once, then is done. */
const startModel = async (...calls: [name: string, input: Record<string, unknown>][]) => {
  const model = await startFakeModel();
  afterFile(model.close);
  const asks = calls.map(([name, input]) => toolUse(name, input));
  model.script(({ results }) => message(results.length === 0 ? asks : [text("done")]));
  const bodies = () =>
    model.requests.flatMap(({ url, body }) => (url.startsWith("/v1/messages") ? JSON.stringify(body) : []));
  return { url: model.url, bodies };
};

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

const runWith = (cli: string) => async (launch: AgentLaunch, cwd: string, modelUrl: string) => {
  const { version } = await askVersion(cli, {});
  const { configDir, args, settingsFile } = launch;
  const worktree = capabilitiesOf(version).worktreeFlag ? launch.worktree : null;
  const child = spawn(
    cli,
    [
      "-p",
      ...args,
      ...(worktree === null
        ? ["--settings", settingsFile ?? ""]
        : ["--settings", worktree.settingsFile, "--worktree", worktree.name]),
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
  const [stdout, stderr] = await Promise.all([
    readAll(child.stdout),
    readAll(child.stderr),
    once(child, "close"),
  ]);
  const events = stdout
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
  expect({ stderr, last: events.at(-1) }).toMatchObject({ last: { type: "result", is_error: false } });
  return events.find(({ subtype }) => subtype === "init");
};

describe.each(bothClis)("$which CLI", ({ cli }) => {
  const run = runWith(cli);

  it("takes a materialised profile as it is meant", async () => {
    const model = await startModel(["Bash", { command: "echo made > made.txt", description: "make" }]);
    const { main, worktree } = await startRepository();
    const { profiles, shared } = await setup({
      [custom("full/profile.yml")]:
        "extends: code\nclaude: {model: opus, append_system_prompt: '--help be-brief', disallowed_tools: [WebFetch, 'Task']}",
      // Without the service's own settings on top this would switch the worktree hook off.
      [custom("full/.claude/settings.json")]: '{"disableAllHooks": true}',
      [custom("full/.claude/CLAUDE.md")]: "always-be-kind",
      [custom("full/.claude/agents/helper.md")]: "---\nname: helper\ndescription: helps\n---\nHelp.",
      [custom("full/.claude/skills/deploy/SKILL.md")]:
        "---\nname: deploy\ndescription: deploys\n---\nDeploy.",
    });
    const launch = await launchOf(profiles, { ...request("full"), worktreePath: worktree });
    const init = await run(launch, worktree, model.url);
    expect(init).toMatchObject({ cwd: worktree, permissionMode: "bypassPermissions", session_id: jobId });
    expect(init?.model).toMatch(/opus/);
    expect(init?.agents).toContain("helper");
    expect(init?.skills).toContain("deploy");
    for (const tool of ["WebFetch", "EnterWorktree", "ExitWorktree"]) expect(init?.tools).not.toContain(tool);
    expect(model.bodies()[0]).toContain("always-be-kind");
    expect(model.bodies()[0]).toContain("--help be-brief");
    expect(await readFile(join(worktree, "made.txt"), "utf8")).toBe("made\n");
    const { stdout } = await git("git", ["-C", main, "worktree", "list", "--porcelain"]);
    expect(stdout.match(/^worktree /gm)).toHaveLength(2);
    const transcript = await profiles.findTranscript(jobId, worktree);
    expect(transcript).toMatch(new RegExp(`^${shared}/projects/[^/]+/${jobId}\\.jsonl$`));
    await profiles.discard(jobId);
    expect(await readFile(transcript ?? "", "utf8")).toContain(jobId);
  });

  it("with the bundled reviewer can read the files of the task, nothing outside the worktree, and write nothing", async () => {
    const { worktree } = await startRepository();
    const { profiles, home } = await setup({ "home/token": "of-somebody" });
    const model = await startModel(
      ["Write", { file_path: join(worktree, "made.txt"), content: "made" }],
      ["Bash", { command: "echo made > made.txt", description: "make" }],
      ["Read", { file_path: join(home, "token") }],
      ["Read", { file_path: join(worktree, ".svc", "in", "log.txt") }],
    );
    await giveFiles([{ name: "log.txt", bytes: Buffer.from("of-the-task") }], { worktree, name: ".svc/in" });
    const launch = await launchOf(profiles, { ...request("review"), worktreePath: worktree });
    const init = await run(launch, worktree, model.url);
    expect(init).toMatchObject({ tools: ["Glob", "Grep", "Read"], permissionMode: "dontAsk", cwd: worktree });
    expect(model.bodies()).toHaveLength(2);
    expect(model.bodies()[1]).toContain("of-the-task");
    expect(model.bodies()[1]).not.toContain("of-somebody");
    expect(await readdir(worktree)).toEqual([".git", ".svc"]);
  });

  it("with an empty list of tools offers none", async () => {
    const { worktree } = await startRepository();
    const model = await startModel(["Read", { file_path: "/etc/hostname" }]);
    const { profiles } = await setup({ [custom("talk.yml")]: "claude: {tools: [], worktree: false}" });
    const init = await run(await launchOf(profiles, request("talk")), worktree, model.url);
    expect(init?.tools).toEqual([]);
  });
});
