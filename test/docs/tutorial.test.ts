import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "vitest";
import { shellBlocks } from "./blocks.ts";
import { startSession } from "./session.ts";

const blocks = shellBlocks(await readFile(join(import.meta.dirname, "../../docs/tutorial.md"), "utf8"));

const session = await startSession();

test.each(blocks)("line $line of docs/tutorial.md does what it says: $title", (block) => session.run(block));

test("nothing runs any more when the tutorial is through", () => session.isAlone());
