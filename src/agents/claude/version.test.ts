import { copyFile, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newestCli, oldestCli } from "../../../test/agent-clis.ts";
import { fakeAgent } from "../../../test/service-process.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import {
  askVersion,
  capabilitiesOf,
  newestVersion,
  oldestVersion,
  blameVersion,
  versionIn,
} from "./version.ts";

test.each([
  ["2.1.197 (Claude Code)", { supported: true, asks: true, worktreeFlag: true }],
  ["2.1.221 (Claude Code)", { supported: true, asks: true, worktreeFlag: true }],
  ["2.1.222 (Claude Code)", { supported: true, asks: true, worktreeFlag: false }],
  ["2.1.332 (Claude Code)\n", { supported: true, asks: true, worktreeFlag: false }],
  ["2.10.0", { supported: true, asks: true, worktreeFlag: false }],
  ["10.0.0", { supported: true, asks: true, worktreeFlag: false }],
  ["2.1.196 (Claude Code)", { supported: false, asks: false, worktreeFlag: false }],
  ["1.99.999", { supported: false, asks: false, worktreeFlag: false }],
  ["Usage: agent", { supported: false, asks: false, worktreeFlag: false }],
  ["", { supported: false, asks: false, worktreeFlag: false }],
])("what a CLI can do that says it is %j: %j", (text, expected) => {
  expect(capabilitiesOf(versionIn(text))).toMatchObject(expected);
});

test("a CLI is asked for its version; one that does not say it, or is not there, has none", async () => {
  const env = { PATH: String(process.env["PATH"]) };
  expect(await askVersion(fakeAgent, env)).toMatchObject({ version: expect.stringMatching(/^2\./) });
  expect(await askVersion("true", env)).toMatchObject({
    version: null,
    text: expect.stringContaining("GNU"),
  });
  expect(await askVersion("no-such-agent", env)).toMatchObject({ version: null, path: null });
});

test("the tests run with the oldest and the newest CLI that the table names", async () => {
  expect((await askVersion(newestCli, {})).version).toBe(newestVersion);
  expect((await askVersion(oldestCli, {})).version).toBe(oldestVersion);
});

test.each(["operate/deployment.md", "operate/updating.md"])(
  "docs/%s installs the newest, and no CLI without a version",
  async (page) => {
    const words = await readFile(join(import.meta.dirname, "../../../docs", page), "utf8");
    const versions = [...words.matchAll(/@anthropic-ai\/claude-code(?:@([\d.]+))?/g)].map((each) => each[1]);
    expect(new Set(versions)).toEqual(new Set([newestVersion]));
  },
);

test("it is asked again when its file is another, also behind a link", async () => {
  const directory = await temporaryDirectory();
  const write = async (name: string, version: string): Promise<string> => {
    await writeFile(join(directory, name), `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
    return join(directory, name);
  };
  const [cli, other] = [await write("cli", "2.1.200"), await write("other", "2.1.300")];
  const link = join(directory, "claude");
  await symlink(cli, link);
  expect(await askVersion(link, {})).toMatchObject({ version: "2.1.200", path: cli });
  await copyFile(other, cli);
  expect((await askVersion(link, {})).version).toBe("2.1.300");
  await write("cli", "2.1.30");
  await symlink(await write("third", "2.1.301"), `${link}-new`);
  await rename(`${link}-new`, link);
  expect((await askVersion(link, {})).version).toBe("2.1.301");
});

test.each([
  ["2.1.300", false, /^The agent CLI \(2\.1\.300; svc works with 2\.1\.197 to 2\.1\.312\)$/, false],
  ["2.1.400", false, /^The agent CLI \(2\.1\.400; /, true],
  ["2.1.100", false, /^The agent CLI \(2\.1\.100; /, true],
  [null, false, /^The agent CLI \(of an unknown version; /, true],
  ["2.1.400", true, /^The agent$/, false],
  ["2.1.100", true, /^The agent CLI \(2\.1\.100; /, true],
] as const)("a CLI %s that failed, and had begun before: %s, is %s", (version, hasBegun, name, isAdvised) => {
  const { agent, advice } = blameVersion(version, { hasBegun });
  expect(agent).toMatch(name);
  expect(advice ?? "").toMatch(isAdvised ? /npm install .*claude-code@2\.1\.312/ : /^$/);
});
