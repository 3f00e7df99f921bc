import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Secrets by the name of the variable that holds them. */
export type Canaries = Record<string, string>;

/** As it is, in a URL, in JSON, and as the password of git's basic authentication; of several lines each line. */
const formsOf = (secret: string): string[] =>
  secret
    .split("\n")
    .filter((line) => line.length >= 16 && !line.startsWith("-----"))
    .flatMap((line) => [
      line,
      encodeURIComponent(line),
      JSON.stringify(line).slice(1, -1),
      Buffer.from(`x-access-token:${line}`).toString("base64").replace(/=+$/, ""),
    ]);

/** Names of the secrets that a text contains. */
export const betrayed = (text: string | Buffer, canaries: Canaries): string[] =>
  Object.entries(canaries).flatMap(([name, secret]) =>
    formsOf(secret).some((form) => text.includes(form)) ? [name] : [],
  );

/** `file: secret` for each file below a directory, by its name or its bytes. */
export const betrayedByFiles = (directory: string, canaries: Canaries): string[] =>
  readdirSync(directory, { recursive: true, withFileTypes: true }).flatMap((entry) => {
    const path = join(entry.parentPath, entry.name);
    const bytes = entry.isFile() ? readFileSync(path) : "";
    return [...betrayed(bytes, canaries), ...betrayed(path, canaries)].map((name) => `${path}: ${name}`);
  });
