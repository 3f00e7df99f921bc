import { rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { custom, named, setup, sharedProfile } from "./profiles.fixture.ts";
import type { Setup } from "./profiles.fixture.ts";

describe("a change on disk", () => {
  it("is seen a second later, and costs nothing until then", async () => {
    const state = await setup({ [custom("a.yml")]: "description: one" });
    expect((await named(state, "a"))?.description).toBe("one");
    await state.write({ [custom("a.yml")]: "description: two" });
    expect((await named(state, "a"))?.description).toBe("one");
    state.wait();
    expect((await named(state, "a"))?.description).toBe("two");
  });

  it.each<[string, (state: Setup) => Promise<void>, string[]]>([
    [
      "a new profile",
      (state) => state.write({ [custom("z/profile.yml")]: "" }),
      ["a", "code", "review", "z"],
    ],
    [
      "a removed one",
      ({ home }) => rm(join(home, ".service/profiles/a"), { recursive: true }),
      ["code", "review"],
    ],
    [
      "a renamed one",
      ({ home }) => rename(join(home, ".service/profiles/a"), join(home, ".service/profiles/b")),
      ["b", "code", "review"],
    ],
    [
      "a first one in a directory that was not there",
      (state) => state.write({ [sharedProfile("s.yml")]: "" }),
      ["a", "code", "review", "s"],
    ],
  ])("that is %s is seen", async (_, change, names) => {
    const state = await setup({ [custom("a/profile.yml")]: "" });
    await state.profiles.list();
    await change(state);
    state.wait();
    expect((await state.profiles.list()).map(({ name }) => name)).toEqual(names);
  });

  it("of what a link leads to is seen", async () => {
    const state = await setup({ [custom("sub/deep/.keep")]: "" });
    await symlink("sub/deep/later.yml", join(state.home, ".service/profiles/linked.yml"));
    expect((await named(state, "linked"))?.error).toMatch(/has no linked\.yml/);
    await state.write({ [custom("sub/deep/later.yml")]: "description: one" });
    state.wait();
    expect(await named(state, "linked")).toMatchObject({ description: "one", error: null });
    await state.write({ [custom("sub/deep/later.yml")]: "description: two" });
    state.wait();
    expect((await named(state, "linked"))?.description).toBe("two");
  });

  it("of a settings file beside the profile is seen", async () => {
    const state = await setup({ [custom("a/profile.yml")]: "", [custom("a/.claude/settings.json")]: "{}" });
    expect((await named(state, "a"))?.error).toBeNull();
    await state.write({ [custom("a/.claude/settings.json")]: "broken" });
    state.wait();
    expect((await named(state, "a"))?.error).toMatch(/not valid JSON/);
  });
});
