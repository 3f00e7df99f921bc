import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { settingsPages, withSettings } from "../../tools/docs.ts";
import { deprecatedVariables, variables } from "./variables.ts";

const page = await readFile(settingsPages[0]?.path ?? "", "utf8");

it.each(settingsPages)(
  "the settings of $path are those made from the variables (else run: node tools/docs.ts)",
  async ({ path, groups }) => {
    const text = await readFile(path, "utf8");
    expect(text).toBe(withSettings(text, groups));
  },
);

it("every variable and each deprecated one are on the page", () => {
  for (const { name } of Object.values(variables)) expect(page).toContain(`- \`${name}\``);
  for (const name of Object.keys(deprecatedVariables)) expect(page).toContain(name);
});

it("a setting's key follows from its variable, as the page says", () => {
  for (const { name, yaml } of Object.values(variables)) {
    const key = name.replace(/^SERVICE_/, "").toLowerCase();
    expect(yaml).toBe(key === "git_host" ? "github.host" : key.replace(/^git_host_/, "github."));
  }
});

it("no two settings share a name or a key", () => {
  const all = Object.values(variables).flatMap(({ name, yaml, fallbacks }) => [name, yaml, ...fallbacks]);
  expect(new Set(all).size).toBe(all.length);
});
