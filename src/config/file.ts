import { readFileSync, statSync } from "node:fs";
import { isMap, isPair, isScalar, isSeq, LineCounter, parseDocument } from "yaml";
import { suggestion } from "../lib/nearest.ts";

/** The YAML file, flat: dotted key → text as in the environment. */
export type ConfigFile = { path: string; values: Map<string, string>; faults: string[] };

/**
 * Reads the file, which may be missing unless `required`. Every value is text as written (`0123` stays `0123`), so
 * that it means the same as in the environment.
 */
export const readConfigFile = (request: {
  path: string;
  required: boolean;
  known: readonly string[];
  /** Other names of keys: those of the variables. */
  aliases: ReadonlyMap<string, string>;
}): ConfigFile => {
  const { path, required, known, aliases } = request;
  const file: ConfigFile = { path, values: new Map(), faults: [] };
  const source = readSource(file, required);
  if (source === null) return file;

  const lines = new LineCounter();
  const document = parseDocument(source, { schema: "failsafe", lineCounter: lines, prettyErrors: false });
  const position = (offset: number) => {
    const { line, col } = lines.linePos(offset);
    return `line ${line}, column ${col}`;
  };
  const [error] = document.errors;
  if (error !== undefined) {
    // Quotes neither the line nor the token (`prettyErrors`, `: "…`): they may contain a secret.
    const [reason] = error.message.split(': "');
    file.faults.push(`${path} is not valid YAML at ${position(error.pos[0])}: ${reason}`);
    return file;
  }
  if (document.contents === null) return file;
  if (!isMap(document.contents)) {
    file.faults.push(`${path} must hold \`key: value\` lines`);
    return file;
  }
  collect({ node: document.contents, prefix: "", file, known, aliases, position });
  return file;
};

/** Other users of the machine could read the tokens in it. */
export const fileModeWarning = (path: string): string | null => {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode ?? 0;
  return (mode & 0o077) === 0 ? null : `${path} holds secrets and can be read by others; run chmod 600 on it`;
};

const readSource = (file: ConfigFile, required: boolean): string | null => {
  try {
    return readFileSync(file.path, "utf8");
  } catch (error) {
    const missing = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (missing && !required) return null;
    file.faults.push(`${file.path} cannot be read: ${missing ? "there is no such file" : String(error)}`);
    return null;
  }
};

type Walk = {
  node: unknown;
  prefix: string;
  file: ConfigFile;
  known: readonly string[];
  aliases: ReadonlyMap<string, string>;
  position: (offset: number) => string;
};

const collect = ({ node, prefix, file, known, aliases, position }: Walk): void => {
  if (isMap(node)) {
    for (const pair of node.items) {
      if (!isPair(pair) || !isScalar(pair.key)) continue;
      const name = String(pair.key.value);
      const key = prefix === "" ? (aliases.get(name) ?? name) : `${prefix}.${name}`;
      const inside = known.some((name) => name.startsWith(`${key}.`)) && isMap(pair.value);
      if (inside) collect({ node: pair.value, prefix: key, file, known, aliases, position });
      else if (known.includes(key)) take({ key, node: pair.value, file });
      else {
        const where = position(pair.key.range?.[0] ?? 0);
        file.faults.push(
          `${file.path}, ${where}: unknown key ${key}${suggestion(key, [...known, ...aliases.keys()])}`,
        );
      }
    }
  }
};

const take = ({ key, node, file }: { key: string; node: unknown; file: ConfigFile }): void => {
  const fault = (wrong: string) => file.faults.push(`${file.path}: ${key} ${wrong}`);
  if (file.values.has(key)) fault("is given twice");
  else if (node === null) return;
  else if (isScalar(node)) {
    const value = String(node.value);
    const plainNull = node.type === "PLAIN" && ["~", "null"].includes(value);
    if (!plainNull) file.values.set(key, value);
  } else if (isSeq(node) && node.items.every((item) => isScalar(item) && !String(item.value).includes(","))) {
    file.values.set(key, node.items.map((item) => (isScalar(item) ? String(item.value) : "")).join(","));
  } else fault("must be a single value or a plain list of values without commas");
};
