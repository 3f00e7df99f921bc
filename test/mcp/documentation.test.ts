import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { idempotencyKeyName } from "../../src/mcp/tools.ts";

const page = await readFile(join(import.meta.dirname, "../../docs/use/mcp.md"), "utf8");

test("docs/use/mcp.md names the idempotency key", () => {
  expect(page).toContain(`"${idempotencyKeyName}"`);
});

test("the configurations in docs/use/mcp.md are JSON", () => {
  const blocks = [...page.matchAll(/^```json\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  expect(blocks).toHaveLength(4);
  for (const block of blocks) JSON.parse(block);
});
