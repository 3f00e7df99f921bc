import { styleText } from "node:util";
import { toJson } from "../lib/well-formed.ts";
import type { Layout, Paint } from "../view/paint.ts";
import { exitCode, type ExitCode } from "./failure.ts";

/** To stdout: the result. */
export const print = (text: string): void => {
  process.stdout.write(`${text}\n`);
};

/** To stderr: notes. */
export const note = (text: string): void => {
  process.stderr.write(`${text}\n`);
};

/** The body as the service sent it, every field of it. */
export const printJson = (body: unknown): void => print(toJson(body, 2));

/** Prints the body as JSON, or as a page. */
export const printAnswer = <Body>(
  body: Body,
  json: boolean | undefined,
  page: (body: Body, layout: Layout) => string,
): ExitCode => {
  if (json === true) printJson(body);
  else print(page(body, layoutOf(process.stdout)));
  return exitCode.ok;
};

export const layoutOf = (stream: NodeJS.WriteStream): Layout => ({
  paint: painter(stream),
  columns: stream.isTTY ? stream.columns : undefined,
});

/** Colours for this stream: on for a terminal, unless NO_COLOR is set; FORCE_COLOR decides before both. */
export const painter =
  (stream: NodeJS.WriteStream): Paint =>
  (format, text) =>
    styleText(format, text, { stream });
