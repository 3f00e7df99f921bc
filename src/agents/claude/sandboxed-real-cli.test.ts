import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { expectTidy, runFake, type FakeRunOptions } from "../../../test/fake-agent/run.ts";
import { startFakeModel, type FakeModel } from "../../../test/fake-model/fake-model.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { createSandbox } from "../../sandbox/sandbox.ts";

/** The real CLI in a sandbox, against the scripted model on loopback. */
let model: FakeModel;
beforeAll(async () => {
  model = await startFakeModel({ token: "canary-token" });
});
afterAll(() => model.close());

const modes = ["bwrap", "landlock"] as const;
const agentCliBinary = fileURLToPath(new URL("../../../node_modules/.bin/claude", import.meta.url));

const run = async (mode: (typeof modes)[number], prompt: string, options: Partial<FakeRunOptions> = {}) => {
  const directory = options.directory ?? (await temporaryDirectory());
  const settings = {
    agentCliBinary,
    modelBaseUrl: model.url,
    modelAuthToken: "canary-token",
    ...options.settings,
  };
  const launch = { bypassPermissions: true, args: ["--model", "sonnet", "--dangerously-skip-permissions"] };
  const done = await runFake(prompt, {
    ...options,
    directory,
    settings,
    sandbox: (await createSandbox(mode)).sandbox,
    launch: { ...launch, ...options.launch },
  });
  expectTidy(done);
  return { ...done, directory };
};

const repository = async (): Promise<string> => {
  const directory = await temporaryDirectory();
  const git = (...args: string[]) => execFileSync("git", ["-C", directory, ...args]);
  git("init", "--quiet");
  git("config", "user.name", "Test");
  git("config", "user.email", "test@localhost");
  await writeFile(`${directory}/README.md`, "# demo\n");
  git("add", "README.md");
  git("commit", "--quiet", "--message", "start");
  return directory;
};

test.each(modes)(
  "%s: does a small piece of work, with a commit, while the key stays outside",
  async (mode) => {
    const directory = await repository();
    const { outcome } = await run(mode, "Describe the layout", { directory });
    expect(outcome).toMatchObject({ ok: true, error: null, exitCode: 0 });
    expect(
      execFileSync("git", ["-C", directory, "log", "-1", "--format=%s"], { encoding: "utf8" }),
    ).toContain("docs:");
  },
);
