import { variables } from "./variables.ts";
import type { SettingName, Settings } from "./variables.ts";
import type { Variable } from "./variable.ts";

/**
 * Every string that must not be seen in a log: each key of a list, PEM text as a whole and by line (a log may break or
 * escape its lines), what base64 hides, and passwords within URLs.
 */
export const secretValues = (settings: Settings): string[] => {
  const found = new Set<string>();
  for (const [key, variable] of Object.entries<Variable>(variables)) {
    // The keys of `variables` are those of `Settings`.
    for (const value of strings(settings[key as SettingName])) {
      for (const secret of variable.secret ? parts(value) : urlPassword(value)) found.add(secret);
    }
  }
  const base64 = settings.gitHostAppPrivateKeyBase64;
  if (base64 !== null)
    for (const part of parts(Buffer.from(base64, "base64").toString("latin1"))) found.add(part);
  found.delete("");
  return [...found];
};

/** `https://user:password@host` → `https://***@host`; other text stays as it is. */
export const maskUrl = (value: string): string =>
  value.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i, "$1***@");

const strings = (value: unknown): string[] =>
  (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "string");

/** The shortest line of a PEM body that cannot be an ordinary word. */
const shortestLine = 16;

const parts = (secret: string): string[] => {
  const lines = secret
    .split(/\r?\n/)
    .filter((line) => line.length >= shortestLine && !line.startsWith("-----"));
  return secret.includes("\n") ? [secret, secret.trim(), ...lines] : [secret];
};

const urlPassword = (value: string): string[] => {
  const { password } = URL.parse(value) ?? { password: "" };
  return password === "" ? [] : [password, decodeURIComponent(password)];
};
