import { isMap, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { suggestion } from "../lib/nearest.ts";
import { FileFault } from "./contained.ts";

/**
 * Reads a YAML file by its schema. @param known the keys that may stand at a path of it, `deliver`
 * @throws FileFault with all its faults in one sentence
 */
export const parseYaml = <Schema extends z.ZodType>(
  { path, source, schema }: { path: string; source: string; schema: Schema },
  known: (path: string) => readonly string[],
): z.output<Schema> => {
  const result = schema.safeParse(parseYamlMap(path, source));
  if (result.success) return result.data;
  throw new FileFault(
    `${path}: ${result.error.issues.flatMap((issue) => describe(issue, known)).join("; ")}`,
  );
};

const describe = (issue: z.core.$ZodIssue, known: (path: string) => readonly string[]): string[] => {
  const at = issue.path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
  const path = at.slice(1);
  if (issue.code === "invalid_key") return [`${path} ${issue.issues[0]?.message ?? issue.message}`];
  if (issue.code !== "unrecognized_keys") return [path === "" ? issue.message : `${path} ${issue.message}`];
  return issue.keys.map(
    (key) => `unknown key ${path === "" ? key : `${path}.${key}`}${suggestion(key, known(path))}`,
  );
};

/** An empty file has no keys. @throws FileFault */
export const parseYamlMap = (path: string, source: string): unknown => {
  const lines = new LineCounter();
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    throw new FileFault(`${path}: is not valid YAML at line ${line}, column ${col}: ${error.message}`);
  }
  if (document.contents !== null && !isMap(document.contents))
    throw new FileFault(`${path}: must hold \`key: value\` lines`);
  try {
    return document.toJS() ?? {};
  } catch (cause) {
    // Thrown when aliases would expand a small document enormously.
    throw new FileFault(`${path}: has aliases that make it too large`, { cause });
  }
};
