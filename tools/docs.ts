import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defaultOf } from "../src/config/variable.ts";
import type { Variable } from "../src/config/variable.ts";
import { variableGroups } from "../src/config/variables.ts";

/** Run as a program (`node tools/docs.ts`) this writes the generated parts of the documentation anew. */

export const configurationPage = join(import.meta.dirname, "..", "docs", "configuration.md");

const begin = "<!-- settings: made by tools/docs.ts from src/config/variables.ts; do not edit -->";
const end = "<!-- settings end -->";

/** The page with its table made anew; all text outside the markers stays. */
export const withSettingsTable = (page: string): string => {
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to < from) throw new Error(`the page has no markers: ${begin} … ${end}`);
  return `${page.slice(0, from)}${begin}\n\n${settingsTable()}\n\n${page.slice(to)}`;
};

const settingsTable = (): string =>
  Object.entries<Record<string, Variable>>(variableGroups)
    .map(([heading, group]) =>
      [`### ${heading}`, "", ...tableHead, ...Object.values(group).map(row)].join("\n"),
    )
    .join("\n\n");

const tableHead = ["| Variable | Key in the file | Default | Meaning |", "|---|---|---|---|"];

const row = (variable: Variable): string => {
  const value = defaultOf(variable, { home: "~", hostname: "the host's name" });
  const { name, yaml, meaning, secret, fallbacks } = variable;
  const notes = [
    ...(fallbacks.length > 0 ? [`Else ${fallbacks.map((fallback) => `\`${fallback}\``).join(", ")}.`] : []),
    ...(secret ? ["Secret."] : []),
  ];
  const cells = [`\`${name}\``, `\`${yaml}\``, value === null || value === "" ? "" : `\`${value}\``];
  return `| ${[...cells, [`${meaning}.`, ...notes].join(" ")].map(escapeCell).join(" | ")} |`;
};

const escapeCell = (text: string): string => text.replaceAll("|", "\\|");

if (import.meta.main)
  writeFileSync(configurationPage, withSettingsTable(readFileSync(configurationPage, "utf8")));
