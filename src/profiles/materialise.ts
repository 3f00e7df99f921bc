import { mkdir, readdir, rm, symlink, writeFile, lstat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { AgentLaunch } from "../agents/agent.ts";
import { projectName } from "../agents/claude/project-name.ts";
import { toArguments } from "./claude-block.ts";
import { type JsonObject, isMissing } from "./contained.ts";
import type { CopiedFile } from "./copied-files.ts";
import type { Plan } from "./plan.ts";
import { ProfileError } from "./profile.ts";
import type { Log } from "../lib/log.ts";
import { createTranscriptHome, type TranscriptHome } from "./transcript-home.ts";

/** Directories that this room writes to; all paths absolute. */
export type Directories = {
  /** The config directories of jobs, and of processes of agent mode, named by the id. */
  jobs: string;
  /** Sessions and transcripts of all jobs: each config directory links to it. */
  projects: string;
  /** The directory around `projects`. */
  transcripts: TranscriptHome;
};

type Roots = { home: string; sharedFsRoot: string | null };

export const directoriesOf = (
  request: Roots & { now: () => number; log: Pick<Log, "warn"> },
): Directories => {
  const { sharedFsRoot, now, log } = request;
  const root = transcriptRoot(request);
  return {
    jobs: join(root, sharedFsRoot === null ? "jobs-config" : "jobs"),
    projects: join(root, "projects"),
    transcripts: createTranscriptHome({ root, now, log }),
  };
};

/** What the transcript service reads: BRIDGE_AGENT_HOME. */
export const transcriptRoot = ({ home, sharedFsRoot }: Roots): string =>
  sharedFsRoot ?? join(home, ".service");

type Request = Pick<AgentLaunch, "profile" | "repoKey" | "timeoutSeconds" | "allowed"> & {
  /** Id of the job or process; names the directory. */
  id: string;
  plan: Plan;
  files: readonly CopiedFile[];
  /** Null: the CLI gets no worktree. */
  worktree: { id: string; path: string } | null;
};

/**
 * Writes a config directory for the CLI, readable by its owner alone, and returns how to start the CLI. Always starts
 * from an empty directory: a second attempt must not find what the agent of the first may have left there.
 * @throws ProfileError
 */
export const materialise = async (
  directories: Directories,
  { id, plan, files, worktree, ...others }: Request,
): Promise<AgentLaunch> => {
  const configDir = configDirectory(directories, id);
  const settingsFile = join(configDir, "service-settings.json");
  const { mcpServers } = plan;
  const mcpConfigFile = Object.keys(mcpServers).length === 0 ? null : join(configDir, "service-mcp.json");
  const worktreeSettingsFile = join(configDir, "service-worktree-settings.json");
  const worktreeSettings = worktree && answerWorktree(worktree.path);

  await discardConfigDirectory(directories, id);
  await mkdir(directories.projects, { recursive: true, mode: 0o700 });
  await mkdir(directories.jobs, { recursive: true, mode: 0o700 });
  await mkdir(configDir, { mode: 0o700 });
  await symlink(directories.projects, join(configDir, "projects"));
  const queue = files.values();
  await allOf([
    ...Array.from({ length: maxWrites }, () => writeCopies(queue, configDir)),
    writeJson(join(configDir, "settings.json"), { ...unattributed(plan.settings), ...plan.settings }),
    writeJson(settingsFile, serviceSettings),
    ...(worktreeSettings === null ? [] : [writeJson(worktreeSettingsFile, worktreeSettings)]),
    ...(mcpConfigFile === null ? [] : [writeJson(mcpConfigFile, { mcpServers })]),
  ]);
  return {
    ...others,
    configDir,
    projectsDir: directories.projects,
    args: toArguments(plan.block),
    model: plan.block.model,
    maxBudgetUsd: plan.block.max_budget_usd ?? null,
    settingsFile,
    mcpConfigFile,
    worktree: worktree && { name: worktree.id, settingsFile: worktreeSettingsFile },
    bypassPermissions: ["bypassPermissions", "dangerously-skip-permissions"].includes(
      plan.block.permission_mode,
    ),
  };
};

/**
 * Removes the directory's link to the shared transcripts, not the transcripts; its plans and history are kept beside
 * these. A missing directory is ignored.
 */
export const discardConfigDirectory = async (directories: Directories, id: string): Promise<void> => {
  const configDir = configDirectory(directories, id);
  await directories.transcripts.keepDocuments(configDir, id);
  await rm(configDir, { recursive: true, force: true });
};

/** The same for all ids with this prefix. */
export const discardConfigDirectories = async (directories: Directories, prefix: string): Promise<void> => {
  const names = await readdir(directories.jobs).catch(() => []);
  for (const name of names.filter((each) => each.startsWith(prefix)))
    await discardConfigDirectory(directories, name);
};

/** Ids come from the service's own records; anything else here would be a path. */
const configDirectory = ({ jobs }: Directories, id: string): string => {
  if (!/^[A-Za-z0-9][A-Za-z0-9-]*$/.test(id)) throw new Error(`${JSON.stringify(id)} is not the id of a job`);
  return join(jobs, id);
};

/** Concurrent writes: a user waits for the first word of an answer. */
const maxWrites = 4;

/** Even after a failure, waits for all writes: the directory may be made again at once. */
const allOf = async (writes: readonly Promise<void>[]): Promise<void> => {
  await Promise.allSettled(writes);
  await Promise.all(writes);
};

const writeCopies = async (queue: IterableIterator<CopiedFile>, configDir: string): Promise<void> => {
  for (const { to, bytes, executable } of queue) {
    const target = join(configDir, to);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    // Skills include scripts to run.
    await writeFile(target, bytes, { mode: executable ? 0o700 : 0o600, flag: "wx" });
  }
};

const writeJson = (path: string, value: JsonObject): Promise<void> =>
  writeFile(path, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flag: "wx" });

/** Days. The CLI would delete transcripts after 30; a job's record and session may live longer. */
const transcriptDays = 36_500;

/** The CLI would have commits and pull requests name it, unless the profile says what it wants. */
const unattributed = (settings: JsonObject): JsonObject =>
  "includeCoAuthoredBy" in settings ? {} : { attribution: { commit: "", pr: "" } };

/** Settings passed by `--settings`, which win over the profile's own: transcripts stay. */
const serviceSettings: JsonObject = { cleanupPeriodDays: transcriptDays };

/**
 * The same with a hook that answers the CLI's request for a worktree with the job's. Otherwise the CLI would make a
 * second one inside the first.
 */
const answerWorktree = (worktreePath: string): JsonObject => {
  // The CLI reads the path as one line.
  if (/[\0\r\n]/.test(worktreePath)) {
    const path = JSON.stringify(worktreePath);
    throw new ProfileError("profile_invalid", `The worktree's path ${path} holds a line break`);
  }
  const command = `printf '%s\\n' '${worktreePath.replaceAll("'", `'\\''`)}'`;
  return {
    ...serviceSettings,
    disableAllHooks: false,
    hooks: { WorktreeCreate: [{ hooks: [{ type: "command", command }] }] },
  };
};

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/**
 * The transcript of a session that began in the directory `cwd`; null: there is none. A file of that name elsewhere is another
 * agent's: each can write in the directory of its own transcripts. Links are not followed.
 */
export const findTranscript = async (
  projects: string,
  sessionId: string,
  cwd: string,
): Promise<string | null> => {
  if (!uuid.test(sessionId)) return null;
  const directory = join(projects, projectName(cwd));
  const path = join(directory, `${sessionId}.jsonl`);
  const looking = Promise.all([lstat(directory), lstat(path)]);
  const [project, file] = await looking.catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  return project?.isDirectory() === true && file?.isFile() === true ? path : null;
};
