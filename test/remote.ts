import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Runs git as a user without configuration would; resolves to its output without the last line break. */
export const git = async (cwd: string, ...args: string[]): Promise<string> => {
  const identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost", "-c", "commit.gpgSign=false"];
  const { stdout } = await run("git", [...identity, "-c", "protocol.file.allow=always", ...args], {
    cwd,
    env: { PATH: process.env["PATH"], HOME: cwd, GIT_CONFIG_NOSYSTEM: "1", GIT_TEMPLATE_DIR: "" },
    maxBuffer: 64_000_000,
  });
  return stdout.replace(/\n$/, "");
};

/** A bare repository under `directory` with one commit of these files on `main`, as a remote to submit. */
export const makeRemoteIn = async (
  directory: string,
  files: Record<string, string> = { "README.md": "# Test\n" },
) => {
  const work = join(directory, "work");
  const path = join(directory, "remote.git");
  await mkdir(work);
  await git(work, "init", "--quiet", "--initial-branch=main");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(work, name)), { recursive: true });
    await writeFile(join(work, name), content);
  }
  await git(work, "add", "--all");
  await git(work, "commit", "--quiet", "--allow-empty", "--message=Start");
  await git(directory, "clone", "--quiet", "--bare", work, path);
  return {
    /** To be given as repo_url. */
    path,
    /** A clone with which to change the remote. */
    work,
    branches: async () =>
      (await git(path, "for-each-ref", "--format=%(refname:short)", "refs/heads"))
        .split("\n")
        .filter(Boolean),
    show: (revision: string) => git(path, "show", revision),
  };
};

/** The same in a temporary directory, for a test file. */
export const makeRemote = async (files?: Record<string, string>) => {
  // Loaded here: the benchmarks use this file too, outside the test runner.
  const { temporaryDirectory } = await import("./temporary.ts");
  return await makeRemoteIn(await temporaryDirectory(), files);
};
