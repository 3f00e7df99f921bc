import { expect, it } from "vitest";
import { variables } from "./variables.ts";

it("a setting's key follows from its variable, as docs/operate/configuration.md says", () => {
  for (const { name, yaml } of Object.values(variables)) {
    const key = name.replace(/^SERVICE_/, "").toLowerCase();
    expect(yaml).toBe(key === "git_host" ? "github.host" : key.replace(/^git_host_/, "github."));
  }
});

it("no two settings share a name or a key", () => {
  const all = Object.values(variables).flatMap(({ name, yaml, fallbacks }) => [name, yaml, ...fallbacks]);
  expect(new Set(all).size).toBe(all.length);
});
