import { chmod, mkdir, readdir, readFile, readlink, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { allowedOf } from "./sandbox-policy.ts";
import { noBoundary, setupHub, process, processId, writer } from "./profiles.fixture.ts";

const json = async (path: string | null): Promise<unknown> => JSON.parse(await readFile(path ?? "", "utf8"));

const full = {
  [writer("agent.yml")]: "claude: {model: opus, timeout: 60, worktree: true, append_system_prompt: brief}",
  [writer("package/CLAUDE.md")]: "be kind",
  [writer("package/system.md")]: "You write.\n",
  [writer("package/.mcp.json")]:
    '{"mcpServers": {"one": {"command": "x", "env": {"T": "${TOKEN}"}}, "two": {"command": "y"}}}',
  [writer("package/.claude/settings.json")]: '{"env": {"A": "1"}}',
  [writer("package/.claude/agents/helper.md")]: "helper",
  [writer("package/.claude/skills/deploy/SKILL.md")]: "skill",
  [writer("package/.claude/skills/deploy/run.sh")]: "#!/bin/sh\n",
  [writer("package/.claude/commands/greet.md")]: "greet",
  [writer("package/.claude/hooks/note.sh")]: "#!/bin/sh\n",
  [writer("package/.claude/other.txt")]: "not copied",
};

describe("a process of an agent", () => {
  it("gets the package in a config directory of its own, and no worktree", async () => {
    const { agent, directory } = await setupHub(full);
    const launch = await agent.materialise(process);
    const { configDir, args, ...others } = launch;
    expect(configDir).toBe(join(directory, "shared/jobs", processId));
    expect(others).toEqual({
      projectsDir: join(directory, "shared/projects"),
      model: "opus",
      settingsFile: join(configDir, "service-settings.json"),
      mcpConfigFile: join(configDir, "service-mcp.json"),
      worktree: null,
      bypassPermissions: true,
      profile: "writer",
      repoKey: null,
      timeoutSeconds: 60,
      maxBudgetUsd: null,
      allowed: allowedOf(noBoundary.serviceWide, {}),
    });
    expect(args.toSorted().join(" ")).toBe(
      "--disallowed-tools=EnterWorktree --disallowed-tools=ExitWorktree --max-turns=80 --model=opus --permission-mode=bypassPermissions",
    );
    expect((await readdir(configDir, { recursive: true })).toSorted().join(" ")).toBe(
      "CLAUDE.md agents agents/helper.md commands commands/greet.md hooks hooks/note.sh projects service-mcp.json service-settings.json settings.json skills skills/deploy skills/deploy/SKILL.md skills/deploy/run.sh",
    );
    expect(await readFile(join(configDir, "CLAUDE.md"), "utf8")).toBe("be kind");
    expect(await json(join(configDir, "settings.json"))).toEqual({
      attribution: { commit: "", pr: "" },
      env: { A: "1" },
    });
    expect(await json(launch.mcpConfigFile)).toEqual({
      mcpServers: { one: { command: "x", env: { T: "${TOKEN}" } }, two: { command: "y" } },
    });
    expect(await readlink(join(configDir, "projects"))).toBe(join(directory, "shared/projects"));
  });

  it("has the turns it was asked for, and no server that was switched off", async () => {
    const { agent } = await setupHub(full);
    const some = await agent.materialise({ ...process, maxTurns: 3, disabledMcpServers: ["one", "unknown"] });
    expect(some.args.filter((argument) => argument.startsWith("--max-turns"))).toEqual(["--max-turns=3"]);
    expect(await json(some.mcpConfigFile)).toEqual({ mcpServers: { two: { command: "y" } } });
    const none = await agent.materialise({ ...process, disabledMcpServers: ["one", "two"] });
    expect(none.mcpConfigFile).toBeNull();
    expect(await readdir(none.configDir)).not.toContain("service-mcp.json");
  });

  it("can run the scripts of the package, and leaves nothing when it is discarded", async () => {
    const { agent, directory } = await setupHub(full);
    await chmod(join(directory, writer("package/.claude/hooks/note.sh")), 0o755);
    const { configDir } = await agent.materialise(process);
    const mode = async (path: string) => ((await stat(join(configDir, path))).mode & 0o777).toString(8);
    expect(await Promise.all(["", "hooks/note.sh", "CLAUDE.md"].map(mode))).toEqual(["700", "700", "600"]);
    await agent.discard(processId);
    await agent.discard(processId);
    expect(await readdir(join(directory, "shared/jobs"))).toEqual([]);
    expect(await readdir(join(directory, "shared"))).toContain("projects");
  });
});

describe("what wins over what", () => {
  it("agent.yml over AGENT_MODE_*, null for not set", async () => {
    const { agent } = await setupHub(
      { [writer("agent.yml")]: "claude: {model: opus, max_turns: null, permission_mode: plan}" },
      { agentModeMaxTurns: 7, agentModeTimeout: 9 },
    );
    expect(await agent.materialise(process)).toMatchObject({
      args: expect.arrayContaining(["--model=opus", "--max-turns=7", "--permission-mode=plan"]),
      bypassPermissions: false,
      timeoutSeconds: 9,
    });
  });

  it("the agent over another agent that it extends, that one over a profile of its own name", async () => {
    const { agent } = await setupHub({
      [writer("agent.yml")]: "extends: base\nclaude: {effort: low}",
      [writer("package/.claude/skills/own/SKILL.md")]: "own",
      "hub/agents/base/agent.yml": "extends: base\nclaude: {model: haiku, effort: high}",
      "hub/agents/base/package/CLAUDE.md": "base",
      "hub/agents/base/package/system.md": "base system",
      "shared/profiles/base/profile.yml": "claude: {model: opus, max_turns: 5}",
      "shared/profiles/base/.claude/CLAUDE.md": "profile",
      "shared/profiles/base/.claude/agents/helper.md": "helper",
    });
    const { args, configDir } = await agent.materialise(process);
    expect(args).toEqual(expect.arrayContaining(["--model=haiku", "--max-turns=5", "--effort=low"]));
    expect(await readFile(join(configDir, "CLAUDE.md"), "utf8")).toBe("base");
    expect(await readdir(configDir)).toEqual(expect.arrayContaining(["skills", "agents"]));
    expect((await agent.read()).systemPrompt).toBe("base system");
  });

  it("a read-only agent stays read-only whatever AGENT_MODE_PERMISSION_MODE is", async () => {
    const { agent } = await setupHub({ [writer("agent.yml")]: "read_only: true" });
    expect(await agent.materialise(process)).toMatchObject({
      args: expect.arrayContaining(["--permission-mode=dontAsk", "--tools=Read", "--disallowed-tools=Bash"]),
      bypassPermissions: false,
    });
  });

  it("AGENT_MODE_* over the profile code, for the agent `default`", async () => {
    const { agent } = await setupHub(
      { "shared/profiles/code.yml": "extends: code\nclaude: {model: haiku, timeout: 5, effort: low}" },
      { hubAgent: null, hubPath: null, agentModeModel: "opus", agentModeMaxTurns: 9 },
    );
    expect(agent.name).toBe("default");
    const read = await agent.read();
    expect(read).toMatchObject({ systemPrompt: null, timeoutSeconds: 3600 });
    expect(read.models.join(" ")).toBe("default default:haiku default:sonnet default:opus haiku sonnet opus");
    const launch = await agent.materialise(process);
    expect(launch).toMatchObject({ model: "opus", worktree: null, profile: "default" });
    expect(launch.args).toEqual(
      expect.arrayContaining(["--effort=low", "--max-turns=9", "--permission-mode=bypassPermissions"]),
    );
    expect(launch.args.join(" ")).not.toMatch(/append-system-prompt|--worktree/);
  });

  it("but a read-only profile code keeps its permission mode", async () => {
    const { agent } = await setupHub(
      { "shared/profiles/code.yml": "read_only: true" },
      { hubAgent: null, agentModeModel: "opus" },
    );
    expect((await agent.materialise(process)).args).toEqual(
      expect.arrayContaining(["--permission-mode=dontAsk", "--model=opus"]),
    );
  });

  it("an operator's own text in the profile code reaches the agent `default`", async () => {
    const { agent } = await setupHub(
      { "shared/profiles/code.yml": "extends: code\nclaude: {append_system_prompt: ours}" },
      { hubAgent: null },
    );
    expect((await agent.read()).systemPrompt).toBe("ours");
  });

  it("system.md comes after the text of agent.yml", async () => {
    const { agent } = await setupHub(full);
    expect((await agent.read()).systemPrompt).toBe("brief\n\nYou write.");
  });
});

describe("a change of the files", () => {
  type State = Awaited<ReturnType<typeof setupHub>>;
  const changes: [string, (state: State) => Promise<void>][] = [
    ["agent.yml", ({ write }) => write({ [writer("agent.yml")]: "claude: {model: haiku}" })],
    ["CLAUDE.md", ({ write }) => write({ [writer("package/CLAUDE.md")]: "be rude" })],
    ["system.md", ({ write }) => write({ [writer("package/system.md")]: "You read." })],
    ["a server", ({ write }) => write({ [writer("package/.mcp.json")]: '{"mcpServers": {}}' })],
    ["a setting", ({ write }) => write({ [writer("package/.claude/settings.json")]: "{}" })],
    ["a skill", ({ write }) => write({ [writer("package/.claude/skills/deploy/SKILL.md")]: "other" })],
    ["a new skill", ({ write }) => write({ [writer("package/.claude/skills/new/SKILL.md")]: "new" })],
    ["a right", ({ directory }) => chmod(join(directory, writer("package/.claude/hooks/note.sh")), 0o755)],
    ["a file less", ({ directory }) => rm(join(directory, writer("package/CLAUDE.md")))],
  ];

  it.each(changes)("is seen a second later and gives another fingerprint: %s", async (_, change) => {
    const state = await setupHub(full);
    const before = await state.agent.read();
    await change(state);
    expect(await state.agent.read()).toBe(before);
    state.wait();
    const after = await state.agent.read();
    expect(after.fingerprint).not.toBe(before.fingerprint);
    state.wait();
    expect(await state.agent.read()).toBe(after);
  });

  it("that no process feels gives the same fingerprint", async () => {
    const { agent, write, wait, directory } = await setupHub(full);
    const before = await agent.read();
    await write({ "hub/aliases.yaml": "w: writer" });
    wait();
    expect((await agent.read()).cliModel("w")).toBeNull();
    await write({
      [writer("README.md")]: "read me",
      [writer("agent.yml")]: `description: new\n${full[writer("agent.yml")]}`,
    });
    wait();
    expect(await agent.read()).toMatchObject({ fingerprint: before.fingerprint });
    await rename(join(directory, "hub"), join(directory, "old"));
    await mkdir(join(directory, "hub/agents"), { recursive: true });
    await rename(join(directory, "old/agents/writer"), join(directory, "hub/agents/writer"));
    wait();
    const after = await agent.read();
    expect(after.fingerprint).toBe(before.fingerprint);
    expect(after.cliModel("w")).toBeUndefined();
  });

  it("of a profile that the agent extends counts too", async () => {
    const { agent, write, wait } = await setupHub({
      [writer("agent.yml")]: "extends: base",
      "shared/profiles/base/profile.yml": "",
      "shared/profiles/base/.claude/skills/one/SKILL.md": "one",
    });
    const seen = new Set([(await agent.read()).fingerprint]);
    await write({ "shared/profiles/base/.claude/skills/one/SKILL.md": "other" });
    wait();
    seen.add((await agent.read()).fingerprint);
    await write({ "shared/profiles/base/profile.yml": "claude: {model: haiku}" });
    wait();
    seen.add((await agent.read()).fingerprint);
    expect(seen.size).toBe(3);
  });

  it("that breaks the agent refuses it until it is mended", async () => {
    const { agent, write, wait } = await setupHub(full);
    const before = await agent.read();
    await write({ [writer("agent.yml")]: "claude: {model: 5}" });
    wait();
    await expect(agent.read()).rejects.toThrow(/writer\/agent\.yml: claude\.model must be text/);
    await expect(agent.materialise(process)).rejects.toThrow(/claude\.model must be text/);
    await write({ [writer("agent.yml")]: full[writer("agent.yml")] ?? "" });
    wait();
    expect(await agent.read()).toMatchObject({ fingerprint: before.fingerprint });
  });
});
