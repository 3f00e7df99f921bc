import { Box, render, Text, useInput, useStdout, type Instance } from "ink";
import { createElement as h, useEffect, useSyncExternalStore, type ReactNode } from "react";
import { inkOutput } from "./full-screen.ts";
import { keysOf } from "./keys.ts";
import type { Ui } from "./ui.ts";

/** Draws the screens until it is unmounted. */
export const draw = (ui: Ui): Instance =>
  render(h(App, { ui }), { stdout: inkOutput(), exitOnCtrlC: false, patchConsole: false });

/** Title, body, notice and the keys of the screen on top, in all of the terminal but its last row. */
const App = ({ ui }: { ui: Ui }): ReactNode => {
  useSyncExternalStore(ui.subscribe, ui.version);
  useInput((input, key) => ui.press(keysOf(input, key)));
  const { stdout } = useStdout();
  useEffect(() => {
    stdout.on("resize", ui.redraw);
    return () => void stdout.off("resize", ui.redraw);
  }, [stdout, ui]);

  // Some terminals report 0. Output that fills the last row would scroll.
  const columns = stdout.columns || 80;
  const rows = Math.max(4, (stdout.rows || 24) - 1);
  const screen = ui.top();
  const body = screen?.body({ columns, rows: rows - 3 }) ?? [];
  return h(
    Box,
    { flexDirection: "column", height: rows, width: columns },
    line("title", ui.paint("bold", screen?.title() ?? "")),
    h(
      Box,
      { key: "body", flexDirection: "column", flexGrow: 1, overflow: "hidden" },
      ...body.map((text, index) => line(String(index), text)),
    ),
    line("notice", ui.paint("yellow", ui.notice())),
    line("hints", ui.paint("dim", screen?.hints() ?? "")),
  );
};

/** Text without characters would have no height. */
const line = (key: string, text: string): ReactNode =>
  h(Box, { key, height: 1, flexShrink: 0 }, h(Text, { wrap: "truncate-end" }, text === "" ? " " : text));
