import { styleText } from "node:util";

type Format = Parameters<typeof styleText>[0];

/** A JSON line of the log as a line for people: time, level, message, then the other fields. */
export const logText = (line: string): string => {
  const {
    time,
    level,
    msg = "",
    err,
    request_id: _id,
    ...fields
  } = JSON.parse(line) as Record<string, unknown>;
  const { message = "", stack = "" } = (err ?? {}) as Record<string, unknown>;
  const clock = new Date(String(time)).toTimeString().slice(0, 8);
  const rest = Object.entries({ ...fields, ...(err !== undefined && { error: message }) })
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${paint("dim", `${name}=`)}${word(value)}`);
  const label = paint(colours[String(level)] ?? "bold", String(level).toUpperCase().padEnd(5));
  const head = [paint("dim", clock), label, safe(String(msg)), ...rest].join(" ");
  // A stack is for faults of the program only.
  return level === "error" && stack !== "" ? `${head}\n${safe(String(stack))}\n` : `${head}\n`;
};

const colours: Record<string, Format> = { debug: "dim", info: "green", warn: "yellow", error: "red" };

const paint = (format: Format, text: string): string => styleText(format, text, { stream: process.stderr });

const word = (value: unknown): string =>
  typeof value === "string" && /^[^\s"]+$/.test(value) ? safe(value) : safe(JSON.stringify(value));

/** Nothing in it that a terminal would obey. */
const safe = (text: string): string => text.replaceAll(/[[\p{Cc}\p{Bidi_Control}]--[\n]]/gv, "\u{FFFD}");
