import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { configurationPage, withSettingsTable } from "../../tools/docs.ts";
import { deprecatedVariables, variables } from "./variables.ts";

const page = await readFile(configurationPage, "utf8");

it("the documentation's table is the one made from the variables (else run: node tools/docs.ts)", () => {
  expect(page).toBe(withSettingsTable(page));
});

it("every variable, its key and each deprecated one are on the page", () => {
  for (const { name, yaml } of Object.values(variables))
    expect(page).toContain(`| \`${name}\` | \`${yaml}\` |`);
  for (const name of Object.keys(deprecatedVariables)) expect(page).toContain(name);
});

it("no two settings share a name or a key", () => {
  const all = Object.values(variables).flatMap(({ name, yaml, fallbacks }) => [name, yaml, ...fallbacks]);
  expect(new Set(all).size).toBe(all.length);
});
