import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";

/** Records its arguments and HOME; `check` and `test` end with the given exit codes. */
const npm = `#!/bin/sh
[ "$1" = config ] && exec echo "/the/$3"
echo "$* with \${HOME##*/}" >> "$CALLS"
case "$*" in
  "run check") echo "1 passed, 0 failed"; exit "$CHECK" ;;
  test) echo "$TALLY"; exit "$TEST" ;;
esac
`;

const run = async ({ check = 0, test: code = 0, tally = "7 passed, 0 failed" }) => {
  const root = await temporaryDirectory();
  await cp(join(import.meta.dirname, "..", "..", ".ci"), join(root, ".ci"), { recursive: true });
  await mkdir(join(root, "programs"));
  await writeFile(join(root, "programs", "npm"), npm, { mode: 0o755 });
  const child = spawn(join(root, ".ci", "run"), {
    env: {
      PATH: `${root}/programs:/usr/bin:/bin`,
      CALLS: `${root}/calls`,
      CHECK: `${check}`,
      TEST: `${code}`,
      TALLY: tally,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [exit]] = await Promise.all([text(child.stdout), once(child, "exit") as Promise<[number]>]);
  const calls = (await readFile(join(root, "calls"), "utf8")).trim().split("\n");
  return { last: output.trim().split("\n").at(-1), exit, calls };
};

test(".ci/run checks the code, then runs the tests, both in an empty home, and its last line is the tests' tally", async () => {
  expect(await run({})).toEqual({
    last: "7 passed, 0 failed",
    exit: 0,
    calls: ["run check with home", "test with home"],
  });
});

test(".ci/run counts a failing check as a failure, runs the tests all the same and ends with a failure", async () => {
  expect(await run({ check: 1, tally: "6 passed, 1 failed", test: 3 })).toMatchObject({
    last: "6 passed, 2 failed",
    exit: 3,
  });
  expect(await run({ check: 1 })).toMatchObject({ last: "7 passed, 1 failed", exit: 1 });
});

test(".ci/run fails when the tests give no tally", async () => {
  expect(await run({ tally: "nothing", test: 1 })).toMatchObject({ last: "0 passed, 1 failed", exit: 1 });
});
