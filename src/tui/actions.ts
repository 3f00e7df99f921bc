import { table } from "../view/columns.ts";
import { section, type Section } from "./list.ts";
import type { Ui } from "./ui.ts";

/** Something to do with an entry; what fails is said in a line. */
export type Action = { name: string; about: string; run: () => void | Promise<void> };

export const actionSection = (ui: Ui, actions: readonly Action[]): Section =>
  section({
    rows: actions,
    table: (rows, columns) =>
      table(
        rows,
        [
          ["ACTION", ({ name }) => name],
          ["", ({ about }) => ui.paint("dim", about)],
        ],
        { paint: ui.paint, columns },
      ),
    item: ({ name, about, run }) => ({
      id: `action ${name}`,
      words: `${name} ${about}`,
      choose: () => ui.attempt(run),
    }),
  });
