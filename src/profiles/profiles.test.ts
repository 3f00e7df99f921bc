import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { custom, named, setup, sharedProfile } from "./profiles.fixture.ts";

const errorOf = async (files: Record<string, string>, name: string): Promise<string | null | undefined> =>
  (await named(await setup(files), name))?.error;

describe("the list", () => {
  it("has the bundled profiles with the values the documentation promises", async () => {
    const both = { worktree: true, budget_day_usd: null, source: "bundled", error: null };
    expect(await (await setup()).profiles.list()).toEqual([
      {
        ...both,
        name: "code",
        model: "sonnet",
        max_turns: 80,
        auto_pr: true,
        description: expect.stringContaining("Autonomous"),
        permission_mode: "dangerously-skip-permissions",
      },
      {
        ...both,
        name: "review",
        model: "haiku",
        max_turns: 20,
        auto_pr: false,
        description: expect.stringContaining("Read-only"),
        permission_mode: "dontAsk",
      },
    ]);
  });

  it("takes a later directory's profile over an earlier one's: bundled, shared, home", async () => {
    const state = await setup({
      [sharedProfile("code/profile.yml")]: "description: shared",
      [sharedProfile("both/profile.yml")]: "description: shared",
      [custom("both.yml")]: "description: home",
    });
    expect(await named(state, "code")).toMatchObject({
      description: "shared",
      model: "sonnet",
      auto_pr: false,
    });
    expect(await named(state, "both")).toMatchObject({
      description: "home",
      source: join(state.home, ".service/profiles/both.yml"),
    });
  });

  it("takes the name in the file over the file's own", async () => {
    const state = await setup({ [custom("a/profile.yml")]: "name: b.c-d_1" });
    expect((await state.profiles.list()).map(({ name }) => name)).toEqual(["b.c-d_1", "code", "review"]);
  });

  it("fills in what a profile does not say", async () => {
    const state = await setup({ [custom("plain.yml")]: "" });
    expect(await named(state, "plain")).toMatchObject({
      model: "sonnet",
      max_turns: null,
      worktree: true,
      auto_pr: false,
      permission_mode: "default",
      error: null,
    });
    expect(await state.profiles.route({ name: "plain", task: "x", repoUrl: "" })).toMatchObject({
      retryLost: false,
      readOnly: false,
    });
  });
});

describe("a bad profile is listed with its error, and the others stay usable:", () => {
  const faults: [what: string, yaml: string, error: RegExp][] = [
    [
      "YAML that does not parse, with the place",
      "claude:\n  model: [x\nfoo",
      /not valid YAML at line \d, column \d/,
    ],
    ["an unknown key, with the nearest", "auto-pr: true", /unknown key auto-pr; did you mean auto_pr\?/],
    [
      "a placeholder that there is not",
      'deliver: {title: "{tsak}"}',
      /deliver\.title has \{tsak\}, which is none of \{task\}/,
    ],
    ["a check without a command", "checks: [{name: lint}]", /checks\[0\]\.run must be text/],
    [
      "two checks of one name",
      "checks: [{name: a, run: x}, {name: a, run: y}]",
      /checks has two that are named a/,
    ],
    ["checks from elsewhere", "checks_from: branch", /checks_from must be repository/],
    ["an unknown on_red", "on_red: ready", /on_red must be none, push or draft/],
    ["an unknown key of deliver", "deliver: {titel: x}", /unknown key deliver\.titel; did you mean title\?/],
    ["an unknown key of match", "match: {tasks: [x]}", /unknown key match\.tasks; did you mean task\?/],
    ["a list", "- a", /must hold `key: value` lines/],
    [
      "a wrong type",
      "auto_pr: maybe\nclaude: {max_turns: 0}",
      /auto_pr must be true or false; claude\.max_turns must be/,
    ],
    [
      "an unknown permission mode",
      "claude: {permission_mode: yolo}",
      /permission_mode must be one of default,.*dangerously/,
    ],
    ["an unknown effort", "claude: {effort: huge}", /claude\.effort must be low, medium/],
    ["no budget", "claude: {max_budget_usd: 0}", /claude\.max_budget_usd must be more than 0/],
    ["a bad expression", "match: {task: ['ok', '(']}", /match\.task\[1\] Invalid regular expression/],
    ["a name that is a path", "name: ../x", /name must be letters/],
    ["the reserved name", "name: auto", /name cannot be auto/],
    [
      "a key the service needs",
      "claude: {output_format: text}",
      /claude\.output_format cannot be set: the service sets it/,
    ],
    ["a key that is not a flag's", "claude: {Model: x}", /claude\.Model must be lower-case words/],
    [
      "aliases that explode",
      "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]",
      /aliases that make it too large/,
    ],
    [
      "text no process can take",
      'claude: {append_system_prompt: "a\\0b"}',
      /claude\.append_system_prompt holds a NUL/,
    ],
    [
      "text too long for an argument",
      `claude: {system_prompt: ${"x".repeat(130_000)}}`,
      /longer than 120000 bytes/,
    ],
  ];

  it.each(faults)("%s", async (_, yaml, error) => {
    const state = await setup({ [custom("bad.yml")]: yaml, [custom("good.yml")]: "" });
    const list = await state.profiles.list();
    expect(list.map(({ name }) => name)).toEqual(["bad", "code", "good", "review"]);
    expect(list[0]?.error).toMatch(error);
    expect(list.slice(1).map((profile) => profile.error)).toEqual([null, null, null]);
  });

  it("a directory without profile.yml, a .yaml file, a file name that is no name", async () => {
    const state = await setup({
      [custom("docs/README.md")]: "",
      [custom("late.yaml")]: "",
      [custom("a b.yml")]: "",
      [custom(".git/profile.yml")]: "",
      [custom("README.md")]: "",
    });
    expect((await state.profiles.list()).map(({ name, error }) => [name, error])).toEqual([
      ["a b", expect.stringContaining("cannot be the name of a profile")],
      ["code", null],
      ["docs", expect.stringContaining("has no profile.yml")],
      ["late.yaml", expect.stringContaining("rename it to late.yml")],
      ["review", null],
    ]);
  });

  it("a settings or MCP file that is not what it should be", async () => {
    const profile = { [custom("bad/profile.yml")]: "" };
    const settings = custom("bad/.claude/settings.json");
    expect(await errorOf({ ...profile, [settings]: "{" }, "bad")).toMatch(/settings\.json is not valid JSON/);
    expect(await errorOf({ ...profile, [settings]: "[]" }, "bad")).toMatch(/must hold a JSON object/);
    expect(await errorOf({ ...profile, [settings]: '{"hooks":{"WorktreeCreate":[]}}' }, "bad")).toMatch(
      /the service makes/,
    );
    expect(await errorOf({ ...profile, [custom("bad/.mcp.json")]: '{"mcpServers":[]}' }, "bad")).toMatch(
      /mcpServers/,
    );
  });

  it("two profiles of one name in one directory", async () => {
    const files = { [custom("x/profile.yml")]: "", [custom("x.yml")]: "" };
    expect(await errorOf(files, "x")).toMatch(/both named x; keep one of them/);
  });

  it("files that links lead out of the profiles directory", async () => {
    const state = await setup({
      "outside/profile.yml": "description: secret",
      [custom("skills/profile.yml")]: "",
      [custom("inside/profile.yml")]: "description: fine",
    });
    const root = join(state.home, ".service/profiles");
    const outside = join(state.home, "../outside");
    await symlink(outside, join(root, "linked"));
    await symlink(join(outside, "profile.yml"), join(root, "file.yml"));
    await symlink(join(root, "inside"), join(root, "alias"));
    await mkdir(join(root, "skills/.claude/skills"), { recursive: true });
    await symlink(outside, join(root, "skills/.claude/skills/stolen"));
    const errors = Object.fromEntries((await state.profiles.list()).map(({ name, error }) => [name, error]));
    expect(errors).toMatchObject({
      linked: expect.stringContaining("through a link"),
      file: expect.stringContaining("through a link"),
      skills: expect.stringContaining("stolen leads outside"),
      inside: null,
      alias: null,
    });
  });
});
