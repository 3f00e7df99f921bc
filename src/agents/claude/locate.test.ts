import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { locateCli } from "./locate.ts";
import { newestVersion, oldestVersion } from "./version.ts";

/** A directory for PATH with a `claude`, linked as its own installer does; null: without one. */
const pathWith = async (version: string | null): Promise<string> => {
  const home = await temporaryDirectory();
  const versions = join(home, "share/claude/versions");
  for (const directory of [versions, join(home, "bin")]) await mkdir(directory, { recursive: true });
  if (version !== null) {
    const script = `#!/bin/sh\necho "${version} (Claude Code)"\n`;
    await writeFile(join(versions, "current"), script, { mode: 0o755 });
    await symlink(join(versions, "current"), join(home, "bin/claude"));
  }
  return `${join(home, "bin")}:/usr/bin:/bin`;
};

const beside = process.execPath;

test.each([
  ["a supported one on PATH", oldestVersion, beside, "claude"],
  ["the newest on PATH", newestVersion, beside, "claude"],
  ["a newer one than is known", "99.0.0", beside, "claude"],
  ["a too old one on PATH", "2.1.100", beside, beside],
  ["one that tells no version", "usage:", beside, beside],
  ["none on PATH", null, beside, beside],
  ["a too old one, and none beside svc", "2.1.100", "/nonexistent", "claude"],
  ["none at all", null, "/nonexistent", "claude"],
])("with %s (%s), the agent CLI beside svc being %s, jobs run with %s", async (_, version, own, expected) => {
  expect(await locateCli("claude", await pathWith(version), own)).toBe(expected);
});

test("another name, or a path, is taken as it is, supported or not", async () => {
  const path = await pathWith("2.1.100");
  for (const command of ["/opt/claude", "fake-agent"])
    expect(await locateCli(command, path, beside)).toBe(command);
});
