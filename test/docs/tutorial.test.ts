import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
import { shellBlocks } from "./blocks.ts";
import { startSession } from "./session.ts";

const blocks = shellBlocks(await readFile(join(import.meta.dirname, "../../docs/use/tutorial.md"), "utf8"));

const session = await startSession();

test.each(blocks)("line $line of docs/use/tutorial.md does what it says: $title", (block) =>
  session.run(block),
);

test("stand-ins that are started again in the same shell play the model again", () =>
  session.run({
    line: 0,
    title: "",
    script: 'cd ~/svc && eval "$(npm run --silent stand-ins)" && kill $STAND_INS_PID\n',
    seen: "Model: NONE. A script plays it: it does the tasks of docs/use/tutorial.md, and little else.\n…\n",
  }));

test("nothing runs any more when the tutorial is through", () => session.isAlone());
