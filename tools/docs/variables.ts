import { defaultOf } from "../../src/config/variable.ts";
import type { Variable } from "../../src/config/variable.ts";
import { item } from "./item.ts";

export type Groups = Record<string, Record<string, Variable>>;

/** A list of settings, by group. */
export const variablesPage = (title: string, about: string, groups: Groups): string =>
  [
    `# ${title}`,
    `${about}\nDurations are in seconds, sizes in bytes. The default is in parentheses. An empty variable counts as unset.\n"Else" names what is read if the first is not set. A secret is masked wherever it is shown.`,
    ...Object.entries(groups).map(([heading, group]) =>
      [`## ${heading}`, "", ...Object.values(group).map(setting)].join("\n"),
    ),
  ].join("\n\n");

const setting = (variable: Variable): string => {
  const value = defaultOf(variable, { home: "~", hostname: "the host's name" });
  const { name, meaning, secret, fallbacks } = variable;
  return item(
    [
      `\`${name}\`${value === null || value === "" ? "" : ` (\`${value}\`)`}: ${meaning}.`,
      ...(fallbacks.length > 0 ? [`Else ${fallbacks.map((fallback) => `\`${fallback}\``).join(", ")}.`] : []),
      ...(secret ? ["Secret."] : []),
    ].join(" "),
  );
};
