import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { ConfigError } from "./config-error.ts";
import { environmentWarnings } from "./environment-warnings.ts";
import { fileModeWarning, readConfigFile } from "./file.ts";
import type { ConfigFile } from "./file.ts";
import { isLoopbackHost } from "./loopback.ts";
import { checkTogether } from "./rules.ts";
import { maskUrl } from "./secrets.ts";
import { defaultOf } from "./variable.ts";
import type { Machine, Variable } from "./variable.ts";
import { variables } from "./variables.ts";
import type { SettingName, Settings } from "./variables.ts";

/** Where a value was found. */
export type Source =
  | { from: "environment"; name: string }
  | { from: "file"; path: string }
  | { from: "default" };

export type LoadedSettings = {
  settings: Settings;
  sources: Record<SettingName, Source>;
  /** Sentences for the log: the configuration works, but perhaps not as intended. */
  warnings: string[];
};

type Request = {
  env: NodeJS.ProcessEnv;
  /** Home directory of the service's user. */
  home?: string;
  /** YAML file to read, which must exist; else `~/.service/config.yml`, which may be missing. */
  file?: string;
  /**
   * `client`: for a command that calls a service, possibly on another machine, so rules about listening do not apply.
   */
  role?: "server" | "client";
};

/**
 * Environment over YAML file over default.
 * @throws ConfigError naming every fault
 */
export const loadSettings = ({ env, home = homedir(), file, role = "server" }: Request): LoadedSettings => {
  const configFile = readConfigFile({
    path: file ?? join(home, ".service", "config.yml"),
    required: file !== undefined,
    known: Object.values(variables).map(({ yaml }) => yaml),
  });
  const machine = { home, hostname: hostname() };
  const faults = [...configFile.faults];

  const values: [string, unknown][] = [];
  const sources: [string, Source][] = [];
  for (const [key, variable] of Object.entries<Variable>(variables)) {
    const found = find({ variable, env, configFile, machine });
    const result = variable.schema.safeParse(found.text);
    sources.push([key, found.source]);
    if (result.success) values.push([key, result.data]);
    else for (const { message } of result.error.issues) faults.push(fault({ variable, ...found, message }));
  }
  // Each key of the table was parsed by its own schema above; faulty ones are missing.
  const parsed: Partial<Settings> = Object.fromEntries(values);
  const together = checkTogether(parsed, role);
  faults.push(...together.faults);
  if (faults.length > 0) throw new ConfigError(faults);

  const settings = parsed as Settings;
  settings.allowLocalRepos ??= isLoopbackHost(settings.host);
  return {
    settings,
    sources: Object.fromEntries(sources) as LoadedSettings["sources"],
    warnings: [...environmentWarnings(env), ...together.warnings, ...modeWarning(configFile)],
  };
};

type Found = { text: string | null; source: Source };

const find = (request: {
  variable: Variable;
  env: NodeJS.ProcessEnv;
  configFile: ConfigFile;
  machine: Machine;
}): Found => {
  const { variable, env, configFile, machine } = request;
  const written = (value: string) => (variable.isPath ? value.replace(/^~(?=\/|$)/, machine.home) : value);
  for (const name of [variable.name, ...variable.fallbacks]) {
    // `$(cat file)` and mounted secrets leave a line break at the end.
    const value = env[name]?.trim() ?? "";
    if (value !== "") return { text: written(value), source: { from: "environment", name } };
  }
  const value = configFile.values.get(variable.yaml)?.trim() ?? "";
  if (value !== "") return { text: written(value), source: { from: "file", path: configFile.path } };
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

const modeWarning = ({ path, values }: ConfigFile): string[] => {
  const holdsSecret = Object.values<Variable>(variables).some(
    ({ yaml, secret }) => secret && values.has(yaml),
  );
  const warning = holdsSecret ? fileModeWarning(path) : null;
  return warning === null ? [] : [warning];
};
