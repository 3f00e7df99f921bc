import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runFake, expectTidy, type FakeRunOptions } from "../../../test/fake-agent/run.ts";
import { startFakeModel } from "../../../test/fake-model/fake-model.ts";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";

/** The real CLI against the scripted model on loopback, which ends with the test file. */
export const startReal = async () => {
  const model = await startFakeModel({ token: "canary-token" });
  afterFile(() => model.close());
  const runWith =
    (agentCliBinary: string) =>
    async (prompt: string, options: Partial<FakeRunOptions> = {}) => {
      const directory = options.directory ?? (await temporaryDirectory());
      const settings = {
        agentCliBinary,
        modelBaseUrl: model.url,
        modelAuthToken: "canary-token",
        ...options.settings,
      };
      const launch = {
        bypassPermissions: true,
        args: ["--model", "sonnet", "--dangerously-skip-permissions"],
      };
      const env = { GIT_CONFIG_GLOBAL: "/dev/null" };
      const done = await runFake(prompt, {
        env,
        ...options,
        directory,
        settings,
        launch: { ...launch, ...options.launch },
      });
      expectTidy(done);
      return { ...done, directory };
    };

  return { model, runWith };
};

type Ran = Awaited<ReturnType<ReturnType<Awaited<ReturnType<typeof startReal>>["runWith"]>>>;

export const textOf = (events: Ran["events"]): string =>
  events.flatMap((event) => (event.type === "text" ? [event.text] : [])).join("");

/** A new repository with one commit. */
export const repository = async (): Promise<string> => {
  const directory = await temporaryDirectory();
  const git = (...args: string[]) => execFileSync("git", ["-C", directory, ...args]);
  git("init", "--quiet");
  git("config", "user.name", "Test");
  git("config", "user.email", "test@localhost");
  await writeFile(join(directory, "README.md"), "# demo\n");
  git("add", "README.md");
  git("commit", "--quiet", "--message", "start");
  return directory;
};
