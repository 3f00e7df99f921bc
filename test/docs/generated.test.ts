import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { operations } from "../../src/contract/operations.ts";
import { deprecatedVariables, variables } from "../../src/config/variables.ts";
import { docs, generatedPages, mark } from "../../tools/docs.ts";

const pages = await generatedPages();
const read = (page: string): string => readFileSync(join(docs, page), "utf8");

test.each(Object.entries(pages))(
  "docs/%s is what its sources say (else run: node tools/docs.ts)",
  (page, text) => {
    expect(read(page)).toBe(text);
  },
);

test("no other page says that it is generated", () => {
  const marked = readdirSync(docs, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".md") && read(file).startsWith(mark),
  );
  expect(marked.toSorted()).toEqual(Object.keys(pages).toSorted());
});

test("the reference has each operation with its path and its tool, each variable and each metric", () => {
  for (const { http } of Object.values(operations))
    expect(pages["use/rest-reference.md"]).toContain(`### ${http.method.toUpperCase()} ${http.path}\n`);
  for (const { name } of Object.values(variables))
    expect(pages["operate/variables.md"]).toContain(`- \`${name}\``);
  expect(pages["operate/metrics.md"]?.match(/^- `svc_/gm)?.length).toBeGreaterThan(15);
});

test("docs/operate/configuration.md names each deprecated variable", () => {
  for (const name of Object.keys(deprecatedVariables))
    expect(read("operate/configuration.md")).toContain(name);
});
