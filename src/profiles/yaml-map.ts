import { isMap, LineCounter, parseDocument } from "yaml";
import { FileFault } from "./contained.ts";

/** Parses a YAML file of `key: value` lines; an empty file has none. @throws FileFault */
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
