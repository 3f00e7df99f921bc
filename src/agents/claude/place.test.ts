import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fakeLaunch, fakeSettings } from "../../../test/fake-agent/run.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import type { Run } from "../../sandbox/sandbox.ts";
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
