import { execFile } from "node:child_process";
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  readlink,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { custom, jobId, launchOf, request, setup, sharedProfile } from "./profiles.fixture.ts";

const json = async (path: string | null): Promise<unknown> => JSON.parse(await readFile(path ?? "", "utf8"));

const full = {
  [custom("full/profile.yml")]: "claude: {model: opus}",
  [custom("full/.claude/settings.json")]: '{"env": {"A": "1"}, "cleanupPeriodDays": 1}',
  [custom("full/.claude/CLAUDE.md")]: "be kind",
  [custom("full/.claude/agents/helper.md")]: "helper",
  [custom("full/.claude/skills/deploy/SKILL.md")]: "skill",
  [custom("full/.claude/skills/deploy/run.sh")]: "#!/bin/sh\n",
  [custom("full/.claude/other.txt")]: "not copied",
  [custom("full/.mcp.json")]: '{"mcpServers": {"one": {"command": "x", "env": {"T": "${TOKEN}"}}}}',
};

describe("the job's config directory", () => {
  it("lies under the shared root when there is one, else under the home directory", async () => {
    const shared = await setup();
    expect((await launchOf(shared.profiles, request("code"))).configDir).toBe(
      join(shared.shared, "jobs", jobId),
    );
    const alone = await setup({}, { withShared: false });
    const { configDir } = await launchOf(alone.profiles, request("code"));
    expect(configDir).toBe(join(alone.home, ".service/jobs-config", jobId));
    expect(await readlink(join(configDir, "projects"))).toBe(join(alone.home, ".service/projects"));
  });

  it("holds the profile's files, the service's settings and the shared projects, for the owner alone", async () => {
    const state = await setup(full);
    await chmod(join(state.home, ".service/profiles/full/.claude/skills/deploy/run.sh"), 0o755);
    const launch = await launchOf(state.profiles, request("full"));
    const at = (path: string) => join(launch.configDir, path);
    expect((await readdir(launch.configDir, { recursive: true })).toSorted().join(" ")).toBe(
      "CLAUDE.md agents agents/helper.md projects service-mcp.json service-settings.json service-worktree-settings.json settings.json skills skills/deploy skills/deploy/SKILL.md skills/deploy/run.sh",
    );
    expect(await readFile(at("CLAUDE.md"), "utf8")).toBe("be kind");
    expect(await json(at("settings.json"))).toEqual({
      attribution: { commit: "", pr: "" },
      env: { A: "1" },
      cleanupPeriodDays: 1,
    });
    expect(await json(launch.mcpConfigFile)).toEqual({
      mcpServers: { one: { command: "x", env: { T: "${TOKEN}" } } },
    });
    expect(await readlink(at("projects"))).toBe(join(state.shared, "projects"));
    const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
    expect(await mode(launch.configDir)).toBe("700");
    expect(await mode(at("skills/deploy"))).toBe("700");
    for (const file of ["settings.json", "CLAUDE.md", "service-settings.json", "service-mcp.json"])
      expect(await mode(at(file))).toBe("600");
    expect(await mode(at("skills/deploy/run.sh"))).toBe("700");
  });

  it("inherits the files of an extended profile: per key, per server, per agent and skill", async () => {
    const state = await setup({
      ...full,
      [sharedProfile("base/profile.yml")]: "",
      [sharedProfile("base/.claude/CLAUDE.md")]: "base",
      [sharedProfile("base/.claude/settings.json")]: '{"env": {"B": "2"}, "language": "en"}',
      [sharedProfile("base/.claude/skills/deploy/old.md")]: "old",
      [sharedProfile("base/.claude/agents/other.md")]: "other",
      [sharedProfile("base/.mcp.json")]:
        '{"mcpServers": {"one": {"command": "base"}, "two": {"command": "base"}}}',
      [custom("full/profile.yml")]: "extends: base",
    });
    const { configDir, mcpConfigFile } = await launchOf(state.profiles, request("full"));
    expect(await readFile(join(configDir, "CLAUDE.md"), "utf8")).toBe("be kind");
    expect(await json(join(configDir, "settings.json"))).toMatchObject({ env: { A: "1" }, language: "en" });
    expect((await readdir(join(configDir, "agents"))).toSorted()).toEqual(["helper.md", "other.md"]);
    expect((await readdir(join(configDir, "skills/deploy"))).toSorted()).toEqual(["SKILL.md", "run.sh"]);
    expect(await json(mcpConfigFile)).toMatchObject({
      mcpServers: { one: { command: "x" }, two: { command: "base" } },
    });
  });

  it.each(['{"includeCoAuthoredBy": true}', '{"attribution": {"commit": "By a machine"}}'])(
    "names the agent in commits where the profile's settings are %s, and nowhere else",
    async (settings) => {
      const { profiles } = await setup({
        [custom("named/profile.yml")]: "extends: code",
        [custom("named/.claude/settings.json")]: settings,
      });
      const named = await launchOf(profiles, request("named"));
      expect(await json(join(named.configDir, "settings.json"))).toEqual(JSON.parse(settings));
    },
  );

  it("is made from nothing for a second attempt, and the transcripts stay", async () => {
    const state = await setup(full);
    const first = await launchOf(state.profiles, request("full"));
    await writeFile(join(first.configDir, "settings.json"), "left by the agent");
    await writeFile(join(first.configDir, "agents/left.md"), "left by the agent");
    await mkdir(join(first.configDir, "projects/-worktree"));
    const second = await launchOf(state.profiles, request("full"));
    expect(second).toEqual(first);
    expect(await json(join(second.configDir, "settings.json"))).toHaveProperty("env");
    expect(await readdir(join(second.configDir, "agents"))).toEqual(["helper.md"]);
    expect(await readdir(join(state.shared, "projects"))).toEqual(["-worktree"]);
  });

  it("is removed without what its link leads to, and removing it twice is fine", async () => {
    const { profiles, shared } = await setup();
    const { configDir } = await launchOf(profiles, request("code"));
    await mkdir(join(configDir, "projects/-worktree"));
    await profiles.discard(jobId);
    await profiles.discard(jobId);
    await expect(lstat(configDir)).rejects.toMatchObject({ code: "ENOENT" });
    expect(await readdir(join(shared, "projects"))).toEqual(["-worktree"]);
  });

  it("is nowhere for an id that is a path", async () => {
    const { profiles, shared } = await setup({ "shared/keep": "" });
    for (const id of ["..", "../keep", "", "a/b"]) {
      await expect(launchOf(profiles, { ...request("code"), jobId: id })).rejects.toThrow(
        /is not the id of a job/,
      );
      await expect(profiles.discard(id)).rejects.toThrow(/is not the id of a job/);
    }
    expect(await readdir(shared)).toEqual(["keep"]);
  });

  it("cannot be made from a profile that has gone or gone bad since", async () => {
    const state = await setup({ [custom("a.yml")]: "", [custom("b.yml")]: "" });
    await state.profiles.list();
    await rm(join(state.home, ".service/profiles/a.yml"));
    await state.write({ [custom("b.yml")]: "x: 1" });
    state.wait();
    await expect(launchOf(state.profiles, request("a"))).rejects.toMatchObject({
      reason: "profile_invalid",
    });
    await expect(launchOf(state.profiles, request("b"))).rejects.toThrow(/unknown key x/);
  });

  it("does not take in what a link planted later leads to", async () => {
    const state = await setup({ ...full, secret: "secret" });
    await state.profiles.list();
    await symlink(
      join(state.home, "../secret"),
      join(state.home, ".service/profiles/full/.claude/agents/stolen.md"),
    );
    await expect(launchOf(state.profiles, request("full"))).rejects.toMatchObject({
      reason: "profile_invalid",
      message: expect.stringContaining("stolen.md leads outside"),
    });
  });
});

describe("the launch", () => {
  it("of the bundled profiles is what their documentation says", async () => {
    const { profiles } = await setup();
    expect(await launchOf(profiles, request("code"))).toMatchObject({
      args: expect.arrayContaining(["--model=sonnet", "--max-turns=80", "--dangerously-skip-permissions"]),
      model: "sonnet",
      mcpConfigFile: null,
      worktree: { name: jobId },
      bypassPermissions: true,
      profile: "code",
      repoKey: "0123456789ab",
      timeoutSeconds: 3600,
    });
    expect(await launchOf(profiles, request("review"))).toMatchObject({
      args: expect.arrayContaining([
        "--model=haiku",
        "--max-turns=20",
        "--permission-mode=dontAsk",
        "--tools=Read",
      ]),
      bypassPermissions: false,
    });
  });

  it("has, for a CLI that takes the flag, a hook that answers with the worktree's path, whatever characters it has", async () => {
    const { profiles } = await setup();
    const worktreePath = '/some trees/it\'s $(touch made) `id` "q" \\n %s';
    const { settingsFile, worktree } = await launchOf(profiles, { ...request("code"), worktreePath });
    expect(await json(settingsFile)).toEqual({ cleanupPeriodDays: 36_500 });
    const settings = (await json(worktree?.settingsFile ?? "")) as {
      cleanupPeriodDays: number;
      hooks: { WorktreeCreate: { hooks: { command: string }[] }[] };
    };
    expect(settings.cleanupPeriodDays).toBeGreaterThan(10_000);
    const command = settings.hooks.WorktreeCreate[0]?.hooks[0]?.command ?? "";
    const { stdout } = await promisify(execFile)("/bin/sh", ["-c", command]);
    expect(stdout).toBe(`${worktreePath}\n`);
    const broken = launchOf(profiles, { ...request("code"), worktreePath: "/a\nb" });
    await expect(broken).rejects.toMatchObject({ reason: "profile_invalid" });
  });

  it("has neither worktree name nor hook for a profile without worktree", async () => {
    const { profiles } = await setup({ [custom("bare.yml")]: "claude: {worktree: false}" });
    const { worktree, settingsFile } = await launchOf(profiles, request("bare"));
    expect(worktree).toBeNull();
    expect(await json(settingsFile)).toEqual({ cleanupPeriodDays: 36_500 });
  });
});
