import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { findExecutable } from "../../src/lib/process/executable.ts";

/** Arguments and environment of one process, separated by NUL as the kernel has them. */
export type Recorded = { program: string; argv: string; environ: string };

/** A PATH on which these programs write down how they were started, before they become the real ones. */
export const recordPrograms = async (directory: string, names: readonly string[]) => {
  const bin = join(directory, "bin");
  const log = join(directory, "log");
  await Promise.all([mkdir(bin, { recursive: true }), mkdir(log, { recursive: true })]);
  const path = process.env["PATH"] ?? "";
  for (const name of names) {
    const real = await findExecutable(name, path);
    if (!real.ok) throw new Error(real.message);
    const file = join(bin, name);
    await writeFile(
      file,
      `#!/bin/sh\nprintf '%s\\0' "$@" > "${log}/${name}.$$.argv"\ncat "/proc/$$/environ" > "${log}/${name}.$$.environ"\nexec "${real.path}" "$@"\n`,
    );
    await chmod(file, 0o755);
  }
  return {
    path: `${bin}:${path}`,
    /** Everything that was started so far. */
    recorded: async (): Promise<Recorded[]> => {
      const files = (await readdir(log)).filter((file) => file.endsWith(".argv"));
      return await Promise.all(
        files.map(async (file) => ({
          program: file.split(".")[0] ?? "",
          argv: await readFile(join(log, file), "latin1"),
          environ: await readFile(join(log, file.replace(/argv$/, "environ")), "latin1"),
        })),
      );
    },
  };
};
