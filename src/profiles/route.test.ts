import { describe, expect, it } from "vitest";
import { ServiceError } from "../contract/errors.ts";
import { custom, setup, noBoundary } from "./profiles.fixture.ts";
import { createLog } from "../lib/log.ts";
import { createProfiles } from "./profiles.ts";

const files = {
  [custom("acme.yml")]: "match: {repo: ['github.com/acme/*', 'https://github.com/other/app.git']}",
  [custom("broken.yml")]: "nonsense: 1\nmatch: {task: ['.']}",
  [custom("tests.yml")]: "match: {task: ['\\btests?\\b']}",
};
const { profiles, home } = await setup(files);
const routed = async (task: string, repoUrl = "", name = "") =>
  (await profiles.route({ name, task, repoUrl })).name;

describe("with no name, or auto,", () => {
  it.each(["Review and fix the date parser", "  audit this", "EXPLAIN main.ts", "add an audit log", ""])(
    "the task %j goes to the default profile: no word makes a task read-only",
    async (task) => {
      expect(await routed(task)).toBe("code");
      expect(await routed(task, "", "auto")).toBe("code");
    },
  );

  it("the first profile by name wins, by task or by repository", async () => {
    expect(await routed("Repair the TESTS")).toBe("tests");
    expect(await routed("Review the tests", "https://github.com/acme/app")).toBe("acme");
  });

  it("a repository is recognised however its URL is written", async () => {
    for (const url of [
      "https://github.com/Acme/app.git",
      "ssh://git@github.com/acme/app/",
      "git@github.com:acme/app.git",
    ])
      expect(await routed("x", url)).toBe("acme");
    for (const url of ["git@github.com:other/app", "https://github.com/other/app.git/"])
      expect(await routed("x", url)).toBe("acme");
    for (const url of [
      "https://github.com/acme/app/deeper",
      "https://github.com.evil.dev/acme/app",
      "/srv/acme/app",
    ])
      expect(await routed("x", url)).toBe("code");
  });

  it("only the beginning of a long task is looked at", async () => {
    expect(await routed(`${"word ".repeat(390)} tests`)).toBe("tests");
    expect(await routed(`${"word ".repeat(410)} tests`)).toBe("code");
  });
});

it.each([
  ["github.com/acme/*", "https://github.com/acme/.github", true],
  ["GitHub.com/*/App", "https://github.com/acme/app", true],
  ["github.com/*", "https://github.com/acme/app", false],
  ["github.com/**", "https://github.com/acme/app", true],
  ["**/app", "https://github.com/acme/app", true],
  ["**/app", "https://github.com/acme/app2", false],
  ["/srv/a?c", "/srv/abc", true],
  ["/srv/a?c", "/srv/a/c", false],
  ["/srv/a.c", "/srv/abc", false],
  ["/srv/(a)+[b]$", "/srv/(a)+[b]$", true],
  ["srv", "/srv/app", false],
])("whether the glob %s fits %s: %s", async (glob, repoUrl, fits) => {
  const state = await setup({ [custom("fitting.yml")]: `match: {repo: ['${glob}']}` });
  const { name } = await state.profiles.route({ name: "", task: "x", repoUrl });
  expect(name).toBe(fits ? "fitting" : "code");
});

it("the rule that chose the profile is reported", async () => {
  const rule = async (task: string, repoUrl = "", name = "") =>
    (await profiles.route({ name, task, repoUrl })).rule;
  expect(await rule("Fix it")).toBe("SERVICE_DEFAULT_PROFILE");
  expect(await rule("Repair the TESTS", "", "auto")).toBe("match.task: \\btests?\\b");
  expect(await rule("x", "git@github.com:acme/app.git")).toBe("match.repo: github.com/acme/*");
  expect(await rule("Repair the tests", "", "code")).toBe("requested");
});

describe("with a name", () => {
  it("that profile runs, whatever the rules say", async () => {
    expect(await routed("Review it", "", "code")).toBe("code");
  });

  it("of no profile the answer is unknown_profile with the names there are", async () => {
    const error = await profiles
      .route({ name: "revew", task: "x", repoUrl: "" })
      .catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ServiceError);
    expect(error).toMatchObject({ code: "unknown_profile" });
    expect(error).toHaveProperty(
      "message",
      'There is no profile "revew"; use one of acme, code, review, tests, or leave it empty; did you mean review?',
    );
  });

  it.each(["../../etc", "__proto__", "constructor", "a/b"])("%j is unknown like any other", async (name) => {
    await expect(profiles.route({ name, task: "x", repoUrl: "" })).rejects.toMatchObject({
      code: "unknown_profile",
    });
  });

  it("of a broken profile the answer is invalid_profile with its error", async () => {
    const route = profiles.route({ name: "broken", task: "x", repoUrl: "" });
    await expect(route).rejects.toMatchObject({
      code: "invalid_profile",
      message: expect.stringContaining("unknown key nonsense"),
    });
  });
});

it("a default profile that does not exist is an error that names the variable", async () => {
  const settings = { sharedFsRoot: null, defaultProfile: "mine", hooksProfile: "coding", agentCliTimeout: 1 };
  const route = createProfiles({
    settings,
    companions: async () => null,
    boundary: noBoundary,
    home,
    log: createLog("silent", (text) => text),
  }).route({
    name: "",
    task: "x",
    repoUrl: "",
  });
  await expect(route).rejects.toThrow(/There is no profile "mine" \(SERVICE_DEFAULT_PROFILE\)/);
});
