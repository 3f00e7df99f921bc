import { constants } from "node:fs";
import { access, stat } from "node:fs/promises";
import { delimiter, join, resolve } from "node:path";

export type Executable =
  | { ok: true; path: string }
  | { ok: false; code: "not_found" | "not_executable"; message: string };

/** The file of a command: itself with a slash, else the first executable on `path` (a PATH). Failures are sentences. */
export const findExecutable = async (command: string, path: string): Promise<Executable> => {
  if (command.includes("/")) return check(resolve(command));
  let refused: Executable | null = null;
  for (const directory of path.split(delimiter)) {
    if (directory === "") continue;
    const found = await check(join(directory, command));
    if (found.ok) return found;
    if (found.code === "not_executable") refused ??= found;
  }
  return (
    refused ?? { ok: false, code: "not_found", message: `The program "${command}" was not found on PATH.` }
  );
};

const check = async (path: string): Promise<Executable> => {
  const status = await stat(path).catch(() => null);
  if (status === null)
    return { ok: false, code: "not_found", message: `The program ${path} does not exist.` };
  const allowed =
    status.isFile() &&
    (await access(path, constants.X_OK).then(
      () => true,
      () => false,
    ));
  if (allowed) return { ok: true, path };
  const what = status.isFile() ? "is not marked as executable" : "is not a file";
  return { ok: false, code: "not_executable", message: `The program ${path} ${what}.` };
};
