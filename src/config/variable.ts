import type { z } from "zod";
import { optionalPath, path, paths } from "./formats.ts";

/** One setting: its source, its format, its meaning. */
export type Variable<Schema extends z.ZodType = z.ZodType> = {
  /** Name in the environment. */
  name: string;
  /** Key in the YAML file, dotted for nesting. */
  yaml: string;
  /** Parses the text from the environment, null when it is unset and has no default. */
  schema: Schema;
  /** Text of the default as it would be written in the environment; null: unset. */
  default: string | null | ((machine: Machine) => string);
  meaning: string;
  /** Masked wherever it is printed. */
  secret: boolean;
  /** Variables that are read when `name` is unset. */
  fallbacks: string[];
  /** A leading `~/`, also of each path in a list, stands for the home directory. */
  isPath: boolean;
};

/** What defaults are made from. */
export type Machine = { home: string; hostname: string };

type Options = Pick<Variable, "meaning"> & Partial<Pick<Variable, "yaml" | "secret" | "fallbacks">>;

/** The YAML key defaults to `name` in lower case without `SERVICE_`. */
export const variable = <Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  defaultText: Variable["default"],
  { meaning, yaml = yamlKey(name), secret = false, fallbacks = [] }: Options,
): Variable<Schema> => ({
  name,
  yaml,
  schema,
  default: defaultText,
  meaning,
  secret,
  fallbacks,
  isPath: [path, optionalPath, paths].some((format: z.ZodType) => format === schema),
});

const yamlKey = (name: string): string => name.toLowerCase().replace(/^service_/, "");

export const defaultOf = ({ default: value }: Variable, machine: Machine): string | null =>
  typeof value === "function" ? value(machine) : value;
