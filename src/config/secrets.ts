import { readFileSync } from "node:fs";
import { readKvOptions } from "./kv-url.ts";
import { variables } from "./variables.ts";
import type { SettingsOf, VariableTable } from "./resolve.ts";
import type { Settings } from "./variables.ts";
import type { Variable } from "./variable.ts";

/**
 * Every string that must not appear in a log, an event or an answer: each key of a list; PEM text as a whole and by
 * line (a log may break or escape its lines); what base64 or a key file hides; credentials within URLs; and values of
 * the service's environment whose names mark them as secrets, since an agent of the same user can read that. Of what
 * SERVICE_AGENT_ENV gives to agents, short ones and paths too.
 */
export const secretValues = (settings: Settings, env: NodeJS.ProcessEnv): string[] => {
  const found = new Set(secretsIn(variables, settings, env));
  const base64 = settings.gitHostAppPrivateKeyBase64;
  const pem = base64 === null ? keyFile(settings) : Buffer.from(base64, "base64").toString("latin1");
  const urls = [settings.kvUrl ?? "", settings.telemetryDb ?? ""].flatMap(urlCredentials);
  const given = settings.agentEnv.flatMap((name) =>
    mentionsSecret.test(name) ? parts((env[name] ?? "").trim()) : [],
  );
  for (const secret of [...parts(pem), ...urls, ...kvSecrets(settings.kvOptionsFile), ...given])
    found.add(secret);
  found.delete("");
  return [...found];
};

/** As `secretValues`, for any program's variables and settings. */
export const secretsIn = <Table extends VariableTable>(
  table: Table,
  settings: SettingsOf<Table>,
  env: NodeJS.ProcessEnv,
): string[] => {
  const values = Object.entries<Variable>(table).flatMap(([key, { secret }]) =>
    strings(settings[key]).flatMap((value) => (secret ? parts(value) : urlCredentials(value))),
  );
  return [...new Set([...values, ...environmentSecrets(env)])].filter((value) => value !== "");
};

/** `https://user:password@host` → `https://***@host`, also without a scheme; other text unchanged. */
export const maskUrl = (value: string): string =>
  value.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@|^[^/?#@:\s]+:[^/?#]*@/i, "$1***@");

const strings = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "string");

/** The shortest line of a PEM body that cannot be an ordinary word. */
const minLineLength = 16;

const parts = (secret: string): string[] => {
  const lines = secret
    .split(/\r?\n/)
    .filter((line) => line.length >= minLineLength && !line.startsWith("-----"));
  return secret.includes("\n") ? [secret, secret.trim(), ...lines] : [secret];
};

const urlCredentials = (value: string): string[] => {
  const { username, password } = URL.parse(value) ?? { username: "", password: "" };
  // A lone user name is the secret: a token.
  const secret = password === "" ? username : password;
  return secret === "" ? [] : [secret, decoded(secret)];
};

/** Passwords of the key-value store and its sentinels. */
const kvSecrets = (file: string | null): string[] => {
  const options = file === null ? {} : readKvOptions(file);
  if (typeof options === "string") return [];
  return [options.password ?? "", options.sentinelPassword ?? ""];
};

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    // A stray percent sign: the text is literal.
    return text;
  }
};

/** A missing file is reported where it is needed. */
const keyFile = ({ gitHostAppPrivateKeyPath: path }: Settings): string => {
  try {
    return path === null ? "" : readFileSync(path, "latin1");
  } catch {
    return "";
  }
};

const namesSecret = /(TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH)(_BASE64)?$/i;

/** Of those that the operator names: `MAX_OUTPUT_TOKENS` is none. */
const mentionsSecret = /TOKEN(?!S)|KEY|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH/i;

/** Not declared as secrets: a shorter value may be an ordinary word. */
const minUndeclaredLength = 12;

const environmentSecrets = (env: NodeJS.ProcessEnv): string[] =>
  Object.entries(env).flatMap(([name, value = ""]) =>
    namesSecret.test(name) && value.length >= minUndeclaredLength && !value.startsWith("/")
      ? parts(value.trim())
      : urlCredentials(value),
  );
