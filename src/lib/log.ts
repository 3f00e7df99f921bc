import { pino, type Logger } from "pino";
import type { Redact } from "./redact.ts";

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

/**
 * JSON lines on stderr; stdout is for the program's answers. Secrets are removed from the finished line, so that none remains
 * in an unexpected field or an error's stack.
 */
export const createLog = (level: string, redact: Redact): Log =>
  pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => void process.stderr.write(redact(line)) },
  );
