import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";

test.each([
  ["README.md", 200],
  ["docs/tutorial.md", 250],
])("%s has at most %i lines, none of them wider than 120 columns", async (page, most) => {
  const lines = (await readFile(join(import.meta.dirname, "../..", page), "utf8")).trimEnd().split("\n");
  expect(lines.length).toBeLessThanOrEqual(most);
  expect(lines.filter((line) => line.length > 120)).toEqual([]);
});
