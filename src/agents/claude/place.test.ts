import { mkdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fakeLaunch, fakeSettings } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { createSandbox, type Run } from "../../sandbox/sandbox.ts";
import { openPlace } from "./place.ts";
import type { ClaudeSettings } from "./settings.ts";

/** What a sandbox is asked for, with a login of the CLI in its home. */
const askedOf = async (settings: Partial<ClaudeSettings>, cwd?: string): Promise<Run> => {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, ".claude"));
  const login = { claudeAiOauth: { accessToken: "token-of-the-login", refreshToken: "never-read" } };
  await writeFile(join(directory, ".claude", ".credentials.json"), JSON.stringify(login));
  const asked = Promise.withResolvers<Run>();
  await openPlace(
    {
      id: "one",
      attempt: 1,
      cwd: cwd ?? directory,
      launch: fakeLaunch(directory),
      session: { id: "s", resumeFrom: null },
    },
    {
      settings: { ...fakeSettings(directory), ...settings },
      env: {},
      sandbox: { mode: "bwrap", enter: async (run) => (asked.resolve(run), null), confine: async () => null },
    },
    () => undefined,
  );
  return await asked.promise;
};

test("the CLI's own login stays outside, and is used where nothing else is set", async () => {
  const { routes, writable } = await askedOf({});
  expect(routes).toMatchObject([
    { target: new URL("https://api.anthropic.com"), headers: { authorization: "Bearer token-of-the-login" } },
  ]);
  expect(writable.join()).not.toContain(".claude/");
  const other = await askedOf({ modelApiKey: "key" });
  expect(other.routes).toMatchObject([{ headers: { "x-api-key": "key" } }]);
});

test("a working directory whose name the CLI would shorten is refused with what to do", async () => {
  await expect(askedOf({}, `/tmp/${"a".repeat(200)}`)).rejects.toThrow(
    /more than 200 characters: shorten its root/,
  );
});

test.each(["bwrap", "landlock"] as const)(
  "%s: what an agent has made of its configuration directory changes nothing of what the next start may write",
  async (mode) => {
    const home = await realpath(await temporaryDirectory());
    const [configDir, projectsDir, cwd] = ["jobs-config/job", "projects", "worktrees/w"].map((name) =>
      join(home, ".service", name),
    ) as [string, string, string];
    for (const directory of [configDir, projectsDir, cwd]) await mkdir(directory, { recursive: true });
    await writeFile(join(home, "id_private"), "canary\n");
    await symlink(projectsDir, join(configDir, "projects"));
    const { sandbox } = await createSandbox(mode, { reserved: [join(home, ".service")], mark: "place" });
    const launch = { ...fakeLaunch(home), configDir, projectsDir };
    const session = { id: "s", resumeFrom: null };
    const start = async (): Promise<string[]> => {
      const settings = { ...fakeSettings(home), agentCliBinary: "true" };
      const surroundings = { settings, env: process.env, sandbox };
      const place = await openPlace(
        { id: "one", attempt: 1, cwd, launch, session },
        surroundings,
        () => undefined,
      );
      await place.close();
      return (place.box?.prefix ?? []).filter((part) => part.includes(home));
    };
    const first = await start();
    expect(first.join()).toContain(join(projectsDir, cwd.replaceAll(/[^a-zA-Z0-9]/g, "-")));
    // As its agent, which may write there.
    const links = join(configDir, "projects");
    await rm(links);
    await mkdir(links);
    await symlink(home, join(links, cwd.replaceAll(/[^a-zA-Z0-9]/g, "-")));
    expect(await start()).toEqual(first);
    // As one without a sandbox, before the operator has chosen one.
    const own = join(projectsDir, cwd.replaceAll(/[^a-zA-Z0-9]/g, "-"));
    await rm(own, { recursive: true });
    await symlink(home, own);
    await expect(start()).rejects.toThrow(`${own} is a link`);
  },
);
