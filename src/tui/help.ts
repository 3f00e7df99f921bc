import { leaves, textScreen } from "./text-screen.ts";
import type { Ui } from "./ui.ts";

/** What these keys do on every screen that does not use them otherwise. */
export const commonKeys = (ui: Ui): Record<string, () => void> => ({
  ...Object.fromEntries(leaves.map((key) => [key, ui.back])),
  "?": () => ui.open(textScreen(ui, { title: "Keys", load: () => help })),
});

const help = `Lists
  1-N        open the entry with this number
  ↑ ↓        select another; PgUp PgDn Home End go further
  Enter      open what is selected
  /word      only entries with the word, Enter keeps it
  /          then Enter: all entries again
  r          refresh now; the list also does so by itself
  a          an instance: all jobs of its store, or only those it runs

A job
  ↑ ↓        scroll; f or End follows what comes
  d          what it has changed
  i          all about it
  c          cancel it; asks first

Everywhere
  Esc        back
  ?          this page
  q          quit in the list of instances, elsewhere back
  Ctrl-C     quit`;
