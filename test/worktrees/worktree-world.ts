import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Worktree } from "../../src/contract/worktree.ts";
import { ClientError } from "../../src/client/client-error.ts";
import { findExecutable } from "../../src/lib/process/executable.ts";
import { git } from "../remote.ts";
import type { Service } from "../service.ts";
import { until } from "../until.ts";

/** What the tests of worktrees ask of a service again and again. */
export const worktreeAsks = ({ client, home }: Service) => ({
  prepare: async (repo_url: string, base_ref = "main"): Promise<Worktree> =>
    (await client.prepare_worktree({ repo_url, base_ref })).worktree,
  get: async (worktree_id: string): Promise<Worktree> =>
    (await client.get_worktree({ worktree_id })).worktree,
  list: async (): Promise<Worktree[]> => (await client.list_worktrees()).worktrees,
  when: (worktree_id: string, status: Worktree["status"]): Promise<Worktree> =>
    until(
      async () => {
        const { worktree } = await client.get_worktree({ worktree_id });
        return worktree.status === status ? worktree : null;
      },
      { what: `worktree ${worktree_id} to be ${status}` },
    ),
  /** Runs git where the work of the only repository is saved. */
  inCache: async (...args: string[]): Promise<string> => {
    const root = join(home, "service-repos");
    const key = (await readdir(root)).find((name) => /^[0-9a-f]{12}$/.test(name));
    return git(join(root, String(key), "saved.git"), ...args);
  },
});

/** The code of the failure that a request ends with; null: it succeeded. */
export const codeOf = (asked: Promise<unknown>): Promise<string | null> =>
  asked.then(
    () => null,
    (error: unknown) => (error instanceof ClientError ? error.code : String(error)),
  );

/** A PATH on which git waits before each fetch, as long as `hold` exists. */
export const slowGit = async (directory: string) => {
  const hold = join(directory, "hold");
  const before = `case " $* " in *" fetch "* | *" clone "*) while [ -e "${hold}" ]; do sleep 0.05; done;; esac`;
  return { path: await gitAfter(directory, before), hold };
};

/** A PATH on which git notes its arguments in `journal`, a line each time. */
export const notedGit = async (directory: string) => {
  const journal = join(directory, "git-journal");
  return { path: await gitAfter(directory, `echo "$*" >> "${journal}"`), journal };
};

const gitAfter = async (directory: string, before: string): Promise<string> => {
  const bin = join(directory, "bin-of-git");
  const path = process.env["PATH"] ?? "";
  const real = await findExecutable("git", path);
  if (!real.ok) throw new Error(real.message);
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, "git"), `#!/bin/sh\n${before}\nexec "${real.path}" "$@"\n`);
  await chmod(join(bin, "git"), 0o755);
  return `${bin}:${path}`;
};
