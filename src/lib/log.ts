import { pino, type Logger } from "pino";
import { logText } from "./log-text.ts";
import type { Redact } from "./redact.ts";

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

/**
 * Lines on stderr; stdout is for the program's answers. Secrets are removed from the finished line, so that none remains
 * in an unexpected field or an error's stack.
 * @param format null: text on a terminal, else JSON
 */
export const createLog = (level: string, redact: Redact, format: "text" | "json" | null = null): Log => {
  const isText = format === "text" || (format === null && process.stderr.isTTY);
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    {
      write: (line: string) => {
        const safe = redact(line);
        process.stderr.write(isText ? logText(safe) : safe);
      },
    },
  );
};
