import { expect, it, describe } from "vitest";
import { custom, named, launchOf, request, setup, sharedProfile } from "./profiles.fixture.ts";

const errorOf = async (files: Record<string, string>, name: string): Promise<string | null | undefined> =>
  (await named(await setup(files), name))?.error;

describe("extends", () => {
  it("is per key, the child wins, and null takes a value away", async () => {
    const state = await setup({
      [custom("base.yml")]:
        "description: base\nretry_lost: true\nclaude: {model: opus, max_turns: 5, effort: low, timeout: 9}",
      [custom("child.yml")]: "extends: base\ndescription: child\nclaude: {max_turns: 7, effort: null}",
    });
    expect(await named(state, "child")).toMatchObject({ description: "child", model: "opus", max_turns: 7 });
    expect(await state.profiles.route({ name: "child", task: "x", repoUrl: "" })).toMatchObject({
      retryLost: true,
    });
    const launch = await launchOf(state.profiles, request("child"));
    expect(launch.args).toEqual(
      expect.arrayContaining(["--model=opus", "--max-turns=7", "--permission-mode=default"]),
    );
    expect(launch.args.join()).not.toContain("--effort");
    expect(launch.timeoutSeconds).toBe(9);
  });

  it("takes the routing rules over unless the child says match: null", async () => {
    const state = await setup({
      [custom("a-heir.yml")]: "extends: nightly",
      [custom("b-none.yml")]: "extends: nightly\nmatch: null",
      [custom("nightly.yml")]: "match: {task: ['^nightly']}",
    });
    const routed = (task: string) => state.profiles.route({ name: "", task, repoUrl: "" });
    expect((await routed("nightly build")).name).toBe("a-heir");
    const without = await setup({
      [custom("b-none.yml")]: "extends: nightly\nmatch: null",
      [custom("nightly.yml")]: "match: {task: ['^nightly']}",
    });
    expect((await without.profiles.route({ name: "", task: "nightly build", repoUrl: "" })).name).toBe(
      "nightly",
    );
  });

  it("of a profile's own name means the one it hides", async () => {
    const state = await setup({
      [sharedProfile("code/profile.yml")]: "extends: code\nclaude: {max_turns: 10}",
      [custom("code.yml")]: "extends: code\nclaude: {model: opus}",
    });
    expect(await named(state, "code")).toMatchObject({
      model: "opus",
      max_turns: 10,
      auto_pr: true,
      error: null,
    });
  });

  it("in a circle is refused with the circle's name", async () => {
    const files = {
      [custom("a.yml")]: "extends: b",
      [custom("b.yml")]: "extends: c",
      [custom("c.yml")]: "extends: a",
      [custom("self.yml")]: "extends: self",
    };
    expect(await errorOf(files, "a")).toMatch(/extends in a circle: a → b → c → a$/);
    expect(await errorOf(files, "self")).toMatch(/extends in a circle: self → self/);
  });

  it("of a missing or a bad profile is refused with the reason", async () => {
    const files = {
      [custom("a.yml")]: "extends: nobody",
      [custom("b.yml")]: "extends: bad",
      [custom("bad.yml")]: "x: 1",
    };
    expect(await errorOf(files, "a")).toMatch(/extends nobody, and there is no profile of that name/);
    expect(await errorOf(files, "b")).toMatch(/extends bad, which cannot be used: .*unknown key x/);
  });
});

describe("read_only", () => {
  it("limits the tools, denies the writing ones, and denies what would ask", async () => {
    const state = await setup({
      [custom("look.yml")]: "read_only: true\nclaude: {disallowed_tools: [WebFetch]}",
    });
    expect(await state.profiles.route({ name: "look", task: "x", repoUrl: "" })).toMatchObject({
      readOnly: true,
    });
    const launch = await launchOf(state.profiles, request("look"));
    for (const tool of ["Read", "Grep", "Glob"]) expect(launch.args).toContain(`--tools=${tool}`);
    for (const tool of ["WebFetch", "Bash", "Edit", "Write"])
      expect(launch.args).toContain(`--disallowed-tools=${tool}`);
    expect(launch.args).toContain("--permission-mode=dontAsk");
    expect(launch.bypassPermissions).toBe(false);
  });

  it("together with its opposite is refused, naming each contradiction", async () => {
    const error = await errorOf(
      { [custom("x.yml")]: "extends: code\nread_only: true\nclaude: {tools: 'Read,Bash'}" },
      "x",
    );
    expect(error).toMatch(
      /auto_pr must be false, and claude\.permission_mode must be .*, and claude\.tools must not name Bash/,
    );
    const allowed = "read_only: true\nclaude: {allowed_tools: ['Bash(git push *)']}";
    expect(await errorOf({ [custom("x.yml")]: allowed }, "x")).toMatch(
      /claude\.allowed_tools must not name Bash/,
    );
  });
});
