import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

const files: Record<string, string> = {
  "README.md": "# temperature\n\nConverts temperatures.\n",
  "package.json":
    '{\n  "name": "temperature",\n  "version": "1.0.0",\n  "type": "module",\n  "scripts": { "test": "node --test" }\n}\n',
  "src/temperature.js": [
    "/** Degrees Celsius to degrees Fahrenheit. */",
    "export const toFahrenheit = (celsius) => (celsius * 9) / 5 + 32;",
    "",
  ].join("\n"),
  "test/temperature.test.js": [
    'import assert from "node:assert/strict";',
    'import { test } from "node:test";',
    'import { toFahrenheit } from "../src/temperature.js";',
    "",
    'test("water boils at 212 degrees Fahrenheit", () => assert.equal(toFahrenheit(100), 212));',
    "",
  ].join("\n"),
};

/** A small repository with one commit on `main`, and a bare remote of it. Resolves to the remote's path. */
export const makeRepository = async (directory: string): Promise<string> => {
  const remote = join(directory, "remote", "temperature.git");
  const work = join(directory, "seed");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(work, name)), { recursive: true });
    await writeFile(join(work, name), content);
  }
  const git = (...args: string[]) =>
    run(
      "git",
      ["-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false", ...args],
      {
        cwd: work,
      },
    );
  await git("init", "--quiet", "--initial-branch=main");
  await git("add", "--all");
  await git("commit", "--quiet", "--message=Convert Celsius to Fahrenheit");
  await git("clone", "--quiet", "--bare", work, remote);
  return remote;
};
