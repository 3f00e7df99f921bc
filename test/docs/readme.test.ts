import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
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
  DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
});

test.each(blocks)("line $line of README.md does what it says: $title", (block) => session.run(block));
