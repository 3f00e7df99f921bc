import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import wrapAnsi from "wrap-ansi";
import { defaultOf } from "../src/config/variable.ts";
import type { Variable } from "../src/config/variable.ts";
import { variableGroups } from "../src/config/variables.ts";

/** Run as a program (`node tools/docs.ts`) this writes the generated parts of the documentation anew. */

export const configurationPage = join(import.meta.dirname, "..", "docs", "configuration.md");

const begin = "<!-- settings: made by tools/docs.ts from src/config/variables.ts; do not edit -->";
const end = "<!-- settings end -->";

/** The page with its settings made anew; all text outside the markers stays. */
export const withSettings = (page: string): string => {
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to < from) throw new Error(`the page has no markers: ${begin} … ${end}`);
  return `${page.slice(0, from)}${begin}\n\n${settingsList()}\n\n${page.slice(to)}`;
};

const settingsList = (): string =>
  Object.entries<Record<string, Variable>>(variableGroups)
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

if (import.meta.main) writeFileSync(configurationPage, withSettings(readFileSync(configurationPage, "utf8")));
