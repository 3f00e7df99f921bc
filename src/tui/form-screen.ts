import { wrap } from "../view/columns.ts";
import { sanitise } from "../view/sanitise.ts";
import { isCharacter, withoutLast } from "./keys.ts";
import type { Screen, Ui } from "./ui.ts";

type Form = {
  title: string;
  /** The first may not be empty. */
  fields: { label: string; hint: string }[];
  submit: (values: string[]) => void;
};

/** Asks for lines of text, one after the other. */
export const formScreen = (ui: Ui, { title, fields, submit }: Form): Screen => {
  const values = fields.map(() => "");
  let current = 0;
  const edit = (change: (value: string) => string): void => {
    values[current] = change(values[current] ?? "");
  };
  const keys: Record<string, (more: boolean) => void> = {
    escape: () => ui.back(),
    tab: () => (current = (current + 1) % fields.length),
    downArrow: () => (current = Math.min(fields.length - 1, current + 1)),
    upArrow: () => (current = Math.max(0, current - 1)),
    backspace: () => edit(withoutLast),
    "ctrl-u": () => edit(() => ""),
    return: (more) => {
      // A line break within a paste belongs to the text.
      if (more) edit((value) => `${value}\n`);
      else if (current < fields.length - 1) current += 1;
      else if ((values[0] ?? "").trim() === "") ui.say(`${fields[0]?.label ?? ""} is empty`);
      else submit(values.map((value) => value.trim()));
    },
  };
  return {
    title: () => title,
    body: ({ columns, rows }) => {
      const lines = fields.flatMap(({ label, hint }, index) => {
        const isCurrent = index === current;
        const value = sanitise(values[index] ?? "") + (isCurrent ? "▏" : "");
        const head = `${isCurrent ? "> " : "  "}${ui.paint("bold", label)}  ${ui.paint("dim", hint)}`;
        const room = Math.max(10, columns - 2);
        return [
          head,
          ...value.split("\n").flatMap((line) => wrap(line, room).map((each) => `  ${each}`)),
          "",
        ];
      });
      const cursor = lines.findIndex((line) => line.includes("▏"));
      return lines.slice(Math.max(0, cursor + 1 - rows)).slice(0, rows);
    },
    hints: () => "Enter next  Ctrl-U clear  Esc back",
    key: (key, more) => {
      const command = keys[key];
      if (command !== undefined) command(more);
      else if (isCharacter(key)) edit((value) => value + key);
    },
  };
};
