import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";

/** Records its arguments and HOME; `check`, `test` and `test:user` end with the exit codes and tallies of the environment. */
const npm = `#!/bin/sh
[ "$1" = config ] && exec echo "/the/$3"
echo "$* with \${HOME##*/}" >> "$CALLS"
case "$*" in
  "run check") echo "1 passed, 0 failed"; exit "$CHECK" ;;
  test) echo "$TALLY"; exit "$TEST" ;;
  "run test:user") echo "$USER_TALLY"; exit "$USER_TEST" ;;
esac
`;

type Ends = {
  check?: number;
  test?: number;
  tally?: string;
  user?: number;
  userTally?: string;
  uid?: number;
};

const run = async ({ check = 0, test: code = 0, tally = "7 passed, 0 failed", ...ends }: Ends) => {
  const { user = 0, userTally = "2 passed, 0 failed", uid = 0 } = ends;
  const root = await temporaryDirectory();
  await cp(join(import.meta.dirname, "..", "..", ".ci"), join(root, ".ci"), { recursive: true });
  await mkdir(join(root, "programs"));
  await writeFile(join(root, "programs", "npm"), npm, { mode: 0o755 });
  await writeFile(join(root, "programs", "id"), `#!/bin/sh\necho ${uid}\n`, { mode: 0o755 });
  const child = spawn(join(root, ".ci", "run"), {
    env: {
      PATH: `${root}/programs:/usr/bin:/bin`,
      CALLS: `${root}/calls`,
      CHECK: `${check}`,
      TEST: `${code}`,
      TALLY: tally,
      USER_TEST: `${user}`,
      USER_TALLY: userTally,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [output, [exit]] = await Promise.all([text(child.stdout), once(child, "exit") as Promise<[number]>]);
  const calls = (await readFile(join(root, "calls"), "utf8")).trim().split("\n");
  return { output, last: output.trim().split("\n").at(-1), exit, calls };
};

test(".ci/run checks the code, then runs the tests, as root some as a user too, all in an empty home, and its last line is the sum of the tallies", async () => {
  expect(await run({})).toMatchObject({
    last: "9 passed, 0 failed",
    exit: 0,
    calls: ["run check with home", "test with home", "run test:user with home"],
  });
});

test(".ci/run of an ordinary user runs the tests once", async () => {
  expect(await run({ uid: 1000 })).toMatchObject({
    last: "7 passed, 0 failed",
    exit: 0,
    calls: ["run check with home", "test with home"],
  });
});

test(".ci/run counts a failing check as a failure, runs the tests all the same and ends with a failure", async () => {
  expect(await run({ check: 1, tally: "6 passed, 1 failed", test: 3 })).toMatchObject({
    last: "8 passed, 2 failed",
    exit: 1,
  });
  expect(await run({ check: 1 })).toMatchObject({ last: "9 passed, 1 failed", exit: 1 });
});

test(".ci/run fails when the tests of either user fail, give no tally, or end badly with a good one", async () => {
  expect(await run({ tally: "nothing", test: 1 })).toMatchObject({ last: "2 passed, 1 failed", exit: 1 });
  expect(await run({ userTally: "nothing" })).toMatchObject({ last: "7 passed, 1 failed", exit: 1 });
  expect(await run({ userTally: "1 passed, 1 failed", user: 4 })).toMatchObject({
    last: "8 passed, 1 failed",
    exit: 4,
  });
  expect(await run({ user: 5 })).toMatchObject({ last: "9 passed, 1 failed", exit: 5 });
});

test(".ci/run tells at its end what failed, of both users", async () => {
  const tally = (name: string): string => `a test\nWhat failed:\n- ${name}\n    why\n\n1 passed, 1 failed`;
  const { output } = await run({
    tally: tally("root.test: it"),
    test: 1,
    userTally: tally("user.test: it"),
    user: 1,
  });
  const end = output.split("a test").at(-1) ?? "";
  expect(end).toMatch(/root\.test: it[^]*user\.test: it[^]*\n2 passed, 2 failed\n$/);
});
