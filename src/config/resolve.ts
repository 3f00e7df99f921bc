import { hostname } from "node:os";
import type { z } from "zod";
import { suggestion } from "../lib/nearest.ts";
import type { ConfigFile } from "./file.ts";
import { maskUrl } from "./secrets.ts";
import { defaultOf, type Machine, type Variable } from "./variable.ts";

/** Where a value was found. */
export type Source =
  | { from: "environment"; name: string }
  | { from: "file"; path: string }
  | { from: "default" };

/** The variables of a program. */
export type VariableTable = Record<string, Variable>;

/** The resolved value of each variable. */
export type SettingsOf<Table extends VariableTable> = {
  [Key in keyof Table]: z.output<Table[Key]["schema"]>;
};

type Resolved<Table extends VariableTable> = {
  /** Faulty ones are missing. */
  values: Partial<SettingsOf<Table>>;
  sources: Record<keyof Table, Source>;
  faults: string[];
};

type Request = { env: NodeJS.ProcessEnv; home: string; file: ConfigFile | null };

/** Reads a table of variables: environment over YAML file over default. */
export const resolveVariables = <Table extends VariableTable>(
  table: Table,
  { env, home, file }: Request,
): Resolved<Table> => {
  const machine = { home, hostname: hostname() };
  const values: [string, unknown][] = [];
  const sources: [string, Source][] = [];
  const faults = [...(file?.faults ?? [])];
  for (const [key, variable] of Object.entries<Variable>(table)) {
    const found = find({ variable, env, file, machine });
    const result = variable.schema.safeParse(found.text);
    sources.push([key, found.source]);
    if (result.success) values.push([key, result.data]);
    else for (const { message } of result.error.issues) faults.push(fault({ variable, ...found, message }));
  }
  // Each key of the table was parsed by its own schema.
  return {
    values: Object.fromEntries(values) as Partial<SettingsOf<Table>>,
    sources: Object.fromEntries(sources) as Record<keyof Table, Source>,
    faults,
  };
};

/** A sentence for a variable that has a prefix of the program and is not known to it; null otherwise. */
export const unknownVariable = (
  name: string,
  { prefixes, known }: { prefixes: readonly string[]; known: ReadonlySet<string> },
): string | null =>
  !prefixes.some((prefix) => name.startsWith(prefix)) || known.has(name)
    ? null
    : `${name} is not a variable of this service and has no effect${suggestion(name, known)}`;

type Found = { text: string | null; source: Source };

const find = (request: {
  variable: Variable;
  env: NodeJS.ProcessEnv;
  file: ConfigFile | null;
  machine: Machine;
}): Found => {
  const { variable, env, file, machine } = request;
  const written = (value: string) =>
    variable.isPath
      ? value.replace(/(^|,\s*)~(?=\/|,|$)/g, (_, before: string) => before + machine.home)
      : value;
  for (const name of [variable.name, ...variable.fallbacks]) {
    // `$(cat file)` and mounted secrets leave a line break at the end.
    const value = env[name]?.trim() ?? "";
    if (value !== "") return { text: written(value), source: { from: "environment", name } };
  }
  const value = file?.values.get(variable.yaml)?.trim() ?? "";
  if (file !== null && value !== "")
    return { text: written(value), source: { from: "file", path: file.path } };
  return { text: defaultOf(variable, machine), source: { from: "default" } };
};

const fault = ({
  variable,
  text,
  source,
  message,
}: Found & { variable: Variable; message: string }): string => {
  const name = source.from === "file" ? `${source.path}: ${variable.yaml}` : "";
  const subject = source.from === "environment" ? source.name : name || variable.name;
  return variable.secret
    ? `${subject} ${message}`
    : `${subject} is ${JSON.stringify(maskUrl(text ?? ""))}: it ${message}`;
};
