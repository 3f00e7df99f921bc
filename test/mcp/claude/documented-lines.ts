import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** The lines with which a page of docs/ has a user add the service to Claude Code. */
export const documentedLines = async (page = "mcp.md"): Promise<string[]> =>
  [
    ...(await readFile(join(import.meta.dirname, "../../../docs/use", page), "utf8")).matchAll(
      /^claude mcp add .*$/gm,
    ),
  ].map(([line]) => line);

/** Adapted to the address of this service. */
export const at = (url: string, line: string): string => line.replaceAll("http://127.0.0.1:8200", url);
