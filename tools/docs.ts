import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import wrapAnsi from "wrap-ansi";
import { defaultOf } from "../src/config/variable.ts";
import type { Variable } from "../src/config/variable.ts";
import { bridgeVariableGroups } from "../src/config/bridge-variables.ts";
import { variableGroups } from "../src/config/variables.ts";

/** Run as a program (`node tools/docs.ts`) this writes the generated parts of the documentation anew. */

type Groups = Record<string, Record<string, Variable>>;
type Page = { path: string; groups: Groups };

const page = (name: string, groups: Groups): Page => ({
  path: join(import.meta.dirname, "..", "docs", name),
  groups,
});

/** Pages with a list of settings. */
export const settingsPages: readonly Page[] = [
  page("operate/configuration.md", variableGroups),
  page("operate/bridge-variables.md", bridgeVariableGroups),
];

const begin = "<!-- settings: made by tools/docs.ts from the variables; do not edit -->";
const end = "<!-- settings end -->";

/** The page with its settings made anew; all text outside the markers stays. */
export const withSettings = (text: string, groups: Groups): string => {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error(`the page has no markers: ${begin} … ${end}`);
  return `${text.slice(0, from)}${begin}\n\n${settingsList(groups)}\n\n${text.slice(to)}`;
};

const settingsList = (groups: Groups): string =>
  Object.entries(groups)
    .map(([heading, group]) => [`### ${heading}`, "", ...Object.values(group).map(item)].join("\n"))
    .join("\n\n");

const columns = 120;

const item = (variable: Variable): string => {
  const value = defaultOf(variable, { home: "~", hostname: "the host's name" });
  const { name, meaning, secret, fallbacks } = variable;
  const text = [
    `\`${name}\`${value === null || value === "" ? "" : ` (\`${value}\`)`}: ${meaning}.`,
    ...(fallbacks.length > 0 ? [`Else ${fallbacks.map((fallback) => `\`${fallback}\``).join(", ")}.`] : []),
    ...(secret ? ["Secret."] : []),
  ].join(" ");
  return `- ${wrapAnsi(text, columns - 2).replaceAll("\n", "\n  ")}`;
};

if (import.meta.main)
  for (const { path, groups } of settingsPages)
    writeFileSync(path, withSettings(readFileSync(path, "utf8"), groups));
