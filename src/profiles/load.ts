import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  FileFault,
  isMissing,
  type JsonObject,
  readContained,
  readJsonObject,
  readMcpServers,
  unreadable,
} from "./contained.ts";
import { copiedFiles } from "./copied-files.ts";
import { type Definition, nameForm, parseDefinition } from "./definition.ts";
import type { Root } from "./roots.ts";

/** A file or directory that defines a profile or an agent. */
export type Source = {
  root: Root;
  /** From the name of the file or directory. */
  name: string;
  /** `profile.yml`, `agent.yml`, or the single file. */
  file: string;
  /** Directory with `.claude/` and `.mcp.json`; null: a single file. */
  parts: string | null;
  /** Why it cannot be read at all. */
  fault: FileFault | null;
};

/** A profile or agent by its own files, before `extends`. */
export type Layer = {
  name: string;
  source: Source;
  definition: Definition;
  /** `.claude/settings.json`, and the servers of `.mcp.json`. */
  settings: JsonObject;
  mcpServers: JsonObject;
  /** What is appended to the system prompt; null: nothing. */
  prompt: string | null;
};

export type BrokenLayer = { name: string; source: Source; fault: FileFault };

export const isBroken = (layer: Layer | BrokenLayer): layer is BrokenLayer => "fault" in layer;

/** Reads what the directory defines. Any error in the files of a profile or agent becomes its fault. */
export const loadRoot = async (root: Root): Promise<(Layer | BrokenLayer)[]> =>
  Promise.all(
    (await sourcesIn(root)).map((source) =>
      readLayer(source).catch((fault: unknown) => {
        if (fault instanceof FileFault) return { name: source.name, source, fault };
        throw fault;
      }),
    ),
  );

const sourcesIn = async (root: Root): Promise<Source[]> => {
  const { path } = root;
  try {
    const entries = (await readdir(path)).filter((entry) => !entry.startsWith(".")).toSorted();
    return (await Promise.all(entries.map((entry) => sourceAt(root, entry)))).flat();
  } catch (error) {
    if (isMissing(error)) return [];
    // Otherwise its profiles would silently be missing: the directory itself is listed, with the error.
    return [{ root, name: path, file: path, parts: null, fault: unreadable(path, error) }];
  }
};

const sourceAt = async (root: Root, entry: string): Promise<Source[]> => {
  const path = join(root.path, entry);
  const { definition, parts, loose } = root.layout;
  if ((await stat(path).catch(() => null))?.isDirectory() === true)
    return [{ root, name: entry, file: join(path, definition), parts: join(path, parts), fault: null }];
  const single = { root, file: path, parts: null };
  if (loose && entry.endsWith(".yml")) return [{ ...single, name: basename(entry, ".yml"), fault: null }];
  if (!loose || !entry.endsWith(".yaml")) return [];
  const fault = new FileFault(`${path} is not read: rename it to ${basename(entry, ".yaml")}.yml`);
  return [{ ...single, name: entry, fault }];
};

/** Of a definition and of a prompt: 256 KiB. */
const maxBytes = 262_144;

const readLayer = async (source: Source): Promise<Layer> => {
  if (source.fault !== null) throw source.fault;
  const { file: path, parts } = source;
  const { path: root, layout } = source.root;
  const file = await readContained({ root, path, maxBytes });
  if (file === null) throw new FileFault(`${dirname(path)} has no ${basename(path)}`);
  const definition = parseDefinition(path, file.bytes.toString("utf8"));
  const name = definition.name ?? source.name;
  if (!nameForm.test(name) || name === "auto")
    throw new FileFault(`${path}: ${name} cannot be the name of a profile`);
  if (!layout.loose && name !== source.name) {
    const wayOut = `leave name out, or rename the directory to ${name}`;
    throw new FileFault(`${path}: name is ${name}, but an agent is known by its directory; ${wayOut}`);
  }
  const layer = { name, source, definition, settings: {}, mcpServers: {}, prompt: null };
  if (parts === null) return layer;

  // Checks now what will be copied for a job, so that a bad link shows before a job needs it.
  await copiedFiles([layer]);
  const prompt =
    layout.prompt === null ? null : await readContained({ root, path: join(parts, layout.prompt), maxBytes });
  return {
    ...layer,
    settings: (await readJsonObject(root, join(parts, ".claude", "settings.json"))) ?? {},
    mcpServers: (await readMcpServers(root, join(parts, ".mcp.json"))) ?? {},
    prompt: prompt?.bytes.toString("utf8").trim() || null,
  };
};
