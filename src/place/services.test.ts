import { execFile } from "node:child_process";
import { readdir } from "node:fs/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { servicesScript } from "./services.ts";

/** Runs the services, and says so afterwards. */
const shell = async (...services: Parameters<typeof servicesScript>[0]) => {
  const cwd = await temporaryDirectory();
  const env = { PATH: "/usr/bin:/bin", TMPDIR: cwd };
  const run = promisify(execFile)("sh", ["-c", `${servicesScript(services)}echo reached`], { cwd, env });
  const ended = await run.then(
    ({ stdout, stderr }) => ({ stdout, stderr, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => ({
      stdout: error.stdout,
      stderr: error.stderr,
      code: error.code,
    }),
  );
  return { ...ended, left: (await readdir(cwd)).filter((name) => name.startsWith("tmp")) };
};

test("without services nothing is done", () => {
  expect(servicesScript([])).toBe("");
});

test("each service begins when the one before is ready; one may end well, as those that go to the background", async () => {
  const ended = await shell(
    { name: "first", command: "sleep 0.3; touch 'it is'", ready: "test -e 'it is'" },
    { name: "second", command: "test -e 'it is' && touch second; sleep 1", ready: "test -e second" },
    { name: "third", command: "head -c 300000 /dev/zero; touch third", ready: "test -e third" },
    { name: "no-word", command: "sleep 1", ready: "true" },
  );
  expect(ended).toEqual({ stdout: "reached\n", stderr: "", code: 0, left: [] });
});

test("one that fails ends the shell at once, with its last words", async () => {
  const ended = await shell(
    { name: "db", command: "echo it\\'s broken >&2; exit 3", ready: "false" },
    { name: "never", command: "touch never", ready: "true" },
  );
  expect(ended).toEqual({
    stdout: "",
    stderr: "The service db ended with exit code 3:\nit's broken\n",
    code: 97,
    left: [],
  });
});
