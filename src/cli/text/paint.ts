import { styleText } from "node:util";

type Format = Parameters<typeof styleText>[0];

/** Colours a text, or gives it back as it is where colours are not wanted. */
export type Paint = (format: Format, text: string) => string;

/** Colours for this stream: on for a terminal, unless NO_COLOR is set; FORCE_COLOR decides before both. */
export const painter =
  (stream: NodeJS.WriteStream): Paint =>
  (format, text) =>
    styleText(format, text, { stream });

export const unpainted: Paint = (_format, text) => text;
