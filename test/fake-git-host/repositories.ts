import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { git } from "./git.ts";
import { HostError } from "./host-error.ts";
import { addOwner, fullName, type Repository, type State } from "./state.ts";

export type NewRepository = {
  private?: boolean;
  defaultBranch?: string;
  /** Files of the first commit by path; null: an empty repository. */
  seed?: Record<string, string> | null;
};

/** The environment variable that makes a push fail in the pre-receive hook. */
export const refusePushVariable = "FAKE_GIT_HOST_REFUSE_PUSH";

const preReceiveHook = `#!/bin/sh
if [ -n "$${refusePushVariable}" ]; then echo "error: $${refusePushVariable}" >&2; exit 1; fi
`;

/** Makes a real bare repository. An unknown owner becomes an organization. @throws HostError 422 */
export const addRepository = async (
  state: State,
  owner: string,
  name: string,
  {
    private: isPrivate = false,
    defaultBranch = "main",
    seed = { "README.md": `# ${name}\n` },
  }: NewRepository = {},
): Promise<Repository> => {
  const key = fullName(owner, name);
  if (!/^[\w.-]+\/[\w.-]+$/.test(key) || name.endsWith(".git"))
    throw new HostError(422, "Repository name is invalid");
  if (state.repositories.has(key)) throw new HostError(422, "Name already exists on this account");
  if (!state.owners.has(owner.toLowerCase())) addOwner(state, owner, "Organization");
  const directory = join(state.root, "repositories", `${key}.git`);
  const path = `/${owner}/${name}.git`;
  const repository = {
    id: state.repositories.size + 1,
    owner,
    name,
    private: isPrivate,
    defaultBranch,
    directory,
    url: state.origin + path,
  };
  state.repositories.set(key, repository);
  await mkdir(directory, { recursive: true });
  await git(["init", "--quiet", "--bare", "--template=", `--initial-branch=${defaultBranch}`], {
    cwd: directory,
  });
  await mkdir(join(directory, "hooks"));
  await writeFile(join(directory, "hooks", "pre-receive"), preReceiveHook);
  await chmod(join(directory, "hooks", "pre-receive"), 0o755);
  if (seed)
    await git(["fast-import", "--quiet"], { cwd: directory, input: firstCommit(defaultBranch, seed) });
  return repository;
};

export const branchExists = async (repository: Repository, branch: string): Promise<boolean> =>
  (await git(["show-ref", "--verify", "--quiet", `refs/heads/${branch}`], { cwd: repository.directory }))
    .code === 0;

/** Commits of `head` that `base` lacks. */
export const commitsBetween = async (repository: Repository, base: string, head: string): Promise<number> => {
  const range = `refs/heads/${base}..refs/heads/${head}`;
  return Number((await git(["rev-list", "--count", range, "--"], { cwd: repository.directory })).stdout);
};

const firstCommit = (branch: string, files: Record<string, string>): string => {
  const contents = Object.entries(files).map(
    ([path, content]) => `M 100644 inline ${JSON.stringify(path)}\n${data(content)}`,
  );
  return `commit refs/heads/${branch}\ncommitter Seed <seed@example.com> 1700000000 +0000\n${data("First commit\n")}${contents.join("")}`;
};

const data = (content: string): string => `data ${Buffer.byteLength(content)}\n${content}\n`;
