import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { AgentLaunch } from "../agents/agent.ts";
import { toArguments } from "./claude-block.ts";
import type { JsonObject } from "./contained.ts";
import type { FileContent } from "./copied-files.ts";
import type { Plan } from "./plan.ts";
import { ProfileError } from "./profile.ts";

/** Where the room keeps what it writes; all paths absolute. */
export type Places = {
  /** The config directories of jobs, and of processes of agent mode, named by the id. */
  jobs: string;
  /** Sessions and transcripts of all jobs: each config directory links to it. */
  projects: string;
};

export const placesOf = ({ home, sharedFsRoot }: { home: string; sharedFsRoot: string | null }): Places => {
  const own = join(home, ".service");
  return sharedFsRoot === null
    ? { jobs: join(own, "jobs-config"), projects: join(own, "projects") }
    : { jobs: join(sharedFsRoot, "jobs"), projects: join(sharedFsRoot, "projects") };
};

type Request = Pick<AgentLaunch, "profile" | "repoKey" | "timeoutSeconds"> & {
  /** Of the job or process; names the directory. */
  id: string;
  plan: Plan;
  files: readonly FileContent[];
  /** Null: the CLI is told of none. */
  worktree: { id: string; path: string } | null;
};

/**
 * Writes a config directory for the CLI, for the owner alone, and says how to start it. The directory is made from
 * nothing each time: a second attempt must not find what the agent of the first may have left there.
 * @throws ProfileError
 */
export const materialise = async (
  places: Places,
  { id, plan, files, worktree, ...others }: Request,
): Promise<AgentLaunch> => {
  const configDir = configDirectory(places, id);
  const settingsFile = join(configDir, "service-settings.json");
  const { mcpServers } = plan;
  const mcpConfigFile = Object.keys(mcpServers).length === 0 ? null : join(configDir, "service-mcp.json");
  const ownSettings = serviceSettings(worktree?.path ?? null);

  await rm(configDir, { recursive: true, force: true });
  await mkdir(places.projects, { recursive: true, mode: 0o700 });
  await mkdir(places.jobs, { recursive: true, mode: 0o700 });
  await mkdir(configDir, { mode: 0o700 });
  await symlink(places.projects, join(configDir, "projects"));
  const queue = files.values();
  await allOf([
    ...Array.from({ length: writers }, () => writeCopies(queue, configDir)),
    writeJson(join(configDir, "settings.json"), plan.settings),
    writeJson(settingsFile, ownSettings),
    ...(mcpConfigFile === null ? [] : [writeJson(mcpConfigFile, { mcpServers })]),
  ]);
  return {
    ...others,
    configDir,
    args: toArguments(plan.block),
    model: plan.block.model,
    settingsFile,
    mcpConfigFile,
    worktreeName: worktree?.id ?? null,
    bypassPermissions: ["bypassPermissions", "dangerously-skip-permissions"].includes(
      plan.block.permission_mode,
    ),
  };
};

/** The directory's link to the shared transcripts is removed, not what it leads to. A missing one is ignored. */
export const discardConfigDirectory = (places: Places, id: string): Promise<void> =>
  rm(configDirectory(places, id), { recursive: true, force: true });

/** The same of all whose ids begin with `prefix`. */
export const discardConfigDirectories = async (places: Places, prefix: string): Promise<void> => {
  const names = await readdir(places.jobs).catch(() => []);
  for (const name of names.filter((each) => each.startsWith(prefix)))
    await discardConfigDirectory(places, name);
};

/** Ids come from our own records; anything else in this place would be a path. */
const configDirectory = ({ jobs }: Places, id: string): string => {
  if (!/^[A-Za-z0-9][A-Za-z0-9-]*$/.test(id)) throw new Error(`${JSON.stringify(id)} is not the id of a job`);
  return join(jobs, id);
};

/** Files written at a time: somebody waits for the first word of an answer. */
const writers = 4;

/** After a failure too nothing is written any more: the directory may be made anew at once. */
const allOf = async (writes: readonly Promise<void>[]): Promise<void> => {
  await Promise.allSettled(writes);
  await Promise.all(writes);
};

const writeCopies = async (queue: IterableIterator<FileContent>, configDir: string): Promise<void> => {
  for (const { to, bytes, executable } of queue) {
    const target = join(configDir, to);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    // Skills bring scripts that are run.
    await writeFile(target, bytes, { mode: executable ? 0o700 : 0o600, flag: "wx" });
  }
};

const writeJson = (path: string, value: JsonObject): Promise<void> =>
  writeFile(path, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flag: "wx" });

/** Days; the CLI otherwise deletes transcripts after 30, and a job's record and its session may be kept for longer. */
const keepTranscripts = 36_500;

/**
 * The settings the CLI gets by `--settings`, which win over the profile's own: transcripts are kept, and with `worktree` the
 * hook that answers the CLI's wish for a worktree with the one that the service has made. Without it the CLI would
 * make a second one inside the first.
 */
const serviceSettings = (worktreePath: string | null): JsonObject => {
  if (worktreePath === null) return { cleanupPeriodDays: keepTranscripts };
  // The CLI reads the path as a line.
  if (/[\0\r\n]/.test(worktreePath)) {
    const path = JSON.stringify(worktreePath);
    throw new ProfileError("profile_invalid", `The worktree's path ${path} holds a line break`);
  }
  const command = `printf '%s\\n' '${worktreePath.replaceAll("'", `'\\''`)}'`;
  return {
    cleanupPeriodDays: keepTranscripts,
    disableAllHooks: false,
    hooks: { WorktreeCreate: [{ hooks: [{ type: "command", command }] }] },
  };
};
