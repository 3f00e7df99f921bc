import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { FileContent } from "./copied-files.ts";
import type { JsonObject } from "./json-files.ts";
import { configDirectory } from "./places.ts";
import type { Places } from "./places.ts";

type Content = {
  /** Of the job or process; names the directory. */
  id: string;
  /** Iterated by several at once. */
  files: IterableIterator<FileContent> | AsyncGenerator<FileContent, void, void>;
  settings: JsonObject;
  /** What the CLI gets by `--settings`. */
  ownSettings: JsonObject;
  mcpServers: JsonObject;
};

/** Files written at a time: somebody waits for the first word of an answer. */
const writers = 4;

/** Absolute paths; `mcpConfigFile` is null when there are no servers. */
type ConfigDirectory = { configDir: string; settingsFile: string; mcpConfigFile: string | null };

/**
 * Writes a config directory for the CLI, for the owner alone. It is made from nothing each time: a second attempt must not
 * find what the agent of the first may have left there.
 */
export const writeConfigDirectory = async (
  places: Places,
  { id, files, settings, ownSettings, mcpServers }: Content,
): Promise<ConfigDirectory> => {
  const configDir = configDirectory(places, id);
  const mcpConfigFile = Object.keys(mcpServers).length === 0 ? null : join(configDir, "service-mcp.json");
  const settingsFile = join(configDir, "service-settings.json");

  await rm(configDir, { recursive: true, force: true });
  await mkdir(places.projects, { recursive: true, mode: 0o700 });
  await mkdir(places.jobs, { recursive: true, mode: 0o700 });
  await mkdir(configDir, { mode: 0o700 });
  await symlink(places.projects, join(configDir, "projects"));
  await allOf([
    ...Array.from({ length: writers }, () => writeCopies(files, configDir)),
    writeJson(join(configDir, "settings.json"), settings),
    writeJson(settingsFile, ownSettings),
    ...(mcpConfigFile === null ? [] : [writeJson(mcpConfigFile, { mcpServers })]),
  ]);
  return { configDir, settingsFile, mcpConfigFile };
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

/** After a failure too nothing is written any more: the directory may be made anew at once. */
const allOf = async (writes: readonly Promise<void>[]): Promise<void> => {
  await Promise.allSettled(writes);
  await Promise.all(writes);
};

const writeCopies = async (files: Content["files"], configDir: string): Promise<void> => {
  for await (const file of files) await writeCopy(file, configDir);
};

const writeCopy = async ({ to, bytes, executable }: FileContent, configDir: string): Promise<void> => {
  const target = join(configDir, to);
  await mkdir(dirname(target), { recursive: true, mode: 0o700 });
  // Skills bring scripts that are run.
  await writeFile(target, bytes, { mode: executable ? 0o700 : 0o600, flag: "wx" });
};

const writeJson = (path: string, value: JsonObject): Promise<void> =>
  writeFile(path, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600, flag: "wx" });
