import { chmod, cp, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { temporaryDirectory } from "../temporary.ts";

const tools = join(import.meta.dirname, "..", "..", "tools");

/** Installs as npm does, but only its record; says how often it was asked in `npm-calls`. */
const npm = `#!/bin/sh
echo "$@" >> npm-calls
if [ -n "$NPM_SAYS" ]; then echo "$NPM_SAYS" >&2; exit 1; fi
if [ -n "$NPM_HANGS" ]; then sleep 600 & echo $! > npm-child; wait; fi
sleep 0.3
mkdir -p node_modules/.bin
cp package-lock.json node_modules/.package-lock.json
`;

/** A project with the tools of this one, a lock file of one package, and programs of its own on the PATH. */
export const makeProject = async () => {
  const root = await temporaryDirectory();
  const programs = join(root, "programs");
  await mkdir(join(root, "tools"));
  for (const name of ["run.mjs", "setup.mjs", "setup"])
    await cp(join(tools, name), join(root, "tools", name), { recursive: true });
  await writeFile(
    join(root, "package-lock.json"),
    JSON.stringify({ packages: { "": {}, "node_modules/one": { version: "1.0.0", integrity: "sha512-1" } } }),
  );
  const addProgram = async (name: string, content: string) => {
    await mkdir(programs, { recursive: true });
    await writeFile(join(programs, name), content);
    await chmod(join(programs, name), 0o755);
  };
  const addFile = async (path: string, content: string) => {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  };
  await addProgram("npm", npm);
  return { root, programs, addProgram, addFile };
};
