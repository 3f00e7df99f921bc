import { execFile } from "node:child_process";
import { readdir, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { tutorialScript } from "../../demo/tutorial-script.ts";
import { afterFile } from "../cleanup.ts";
import { hostVariables, startHost } from "../e2e/hosted.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { shellBlocks } from "./blocks.ts";
import { startSession } from "./session.ts";

const page = await readFile(join(import.meta.dirname, "../../README.md"), "utf8");
// These two run elsewhere: the demo has its own test, and this is `npm test`.
const blocks = shellBlocks(page.replaceAll(/^npm (run demo|test)\b.*$/gm, "true"));

const model = await startFakeModel();
model.script(tutorialScript);
afterFile(() => model.close());
const host = await startHost();
const repository = await host.createRepository("acme", "app", { private: true });

// What README tells its reader to set.
const session = await startSession({
  ANTHROPIC_API_KEY: "key-of-the-test",
  ANTHROPIC_BASE_URL: model.url,
  ...hostVariables(host, host.createToken()),
  REPO: repository.url,
  PAGER: "cat",
  DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
});

const uninstall = blocks.filter(({ script }) => script.startsWith("npm uninstall"));

test.each(blocks.filter((block) => !uninstall.includes(block)))(
  "line $line of README.md does what it says: $title",
  (block) => session.run(block),
);

test("what was installed works in a new shell, without the checkout, with its own Node", async () => {
  const [checkout, away] = [join(session.home, "svc"), join(session.home, "away")];
  await rename(checkout, away);
  const { stdout } = await promisify(execFile)(
    "bash",
    ["-lc", "svc version && node --version && claude --version && which svc bridge node claude"],
    { cwd: session.home, env: { HOME: session.home, PATH: "/usr/bin:/bin" } },
  );
  await rename(away, checkout);
  expect(stdout).toMatch(/^svc 0\.1\.0\nv24\.[\d.]+\n[\d.]+ \(Claude Code\)\n/);
  const programs = ["svc", "bridge", "node", "claude"].map((name) => join(session.home, ".local/bin", name));
  expect(stdout.trim().split("\n").slice(-4)).toEqual(programs);
});

test.each(uninstall)("line $line of README.md leaves nothing over", async (block) => {
  await session.run({ ...block, script: `kill $! && wait $!\n${block.script}` });
  const left = await readdir(join(session.home, ".local"), { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => !entry.isDirectory()).map(({ name }) => name)).toEqual([]);
  const own = [".service", "service-repos", ".bridge"];
  expect((await readdir(session.home)).filter((name) => own.includes(name))).toEqual([]);
  expect(await readFile(join(session.home, ".profile"), "utf8")).toBe("");
});
