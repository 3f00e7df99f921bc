import { isMap, LineCounter, parseDocument } from "yaml";

/** What a YAML file of `key: value` lines holds (an empty file: nothing), or what is wrong with it. */
export const parseYamlMap = (source: string): { value: unknown } | { fault: string } => {
  const lines = new LineCounter();
  const document = parseDocument(source, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) {
    const { line, col } = lines.linePos(error.pos[0]);
    return { fault: `is not valid YAML at line ${line}, column ${col}: ${error.message}` };
  }
  if (document.contents !== null && !isMap(document.contents))
    return { fault: "must hold `key: value` lines" };
  try {
    return { value: document.toJS() ?? {} };
  } catch {
    // Thrown when aliases would make a small document huge.
    return { fault: "has aliases that make it too large" };
  }
};
