import { basename, dirname, join } from "node:path";
import { FileFault, readContained } from "./contained.ts";
import { copiedFiles } from "./copied-files.ts";
import { nameForm, parseDefinition } from "./definition.ts";
import type { Definition } from "./definition.ts";
import { readJsonObject, readMcpServers } from "./json-files.ts";
import type { JsonObject } from "./json-files.ts";
import type { Candidate } from "./scan.ts";

/** A profile as its own files say, before `extends`. */
export type Layer = {
  name: string;
  candidate: Candidate;
  definition: Definition;
  /** `.claude/settings.json`, and the servers of `.mcp.json`. */
  settings: JsonObject;
  mcpServers: JsonObject;
};

export type BrokenLayer = { name: string; candidate: Candidate; fault: string };

export const isBroken = (layer: Layer | BrokenLayer): layer is BrokenLayer => "fault" in layer;

const maxProfileBytes = 262_144;

/** Reads and checks one profile; whatever is wrong with its files becomes its fault. */
export const loadLayer = async (candidate: Candidate): Promise<Layer | BrokenLayer> => {
  if (candidate.fault !== null) return { name: candidate.name, candidate, fault: candidate.fault };
  try {
    return await readLayer(candidate);
  } catch (error) {
    if (error instanceof FileFault) return { name: candidate.name, candidate, fault: error.message };
    throw error;
  }
};

const readLayer = async (candidate: Candidate): Promise<Layer> => {
  const { file: path, directory } = candidate;
  const root = candidate.root.path;
  const file = await readContained({ root, path, maxBytes: maxProfileBytes });
  if (file === null) throw new FileFault(`${dirname(path)} has no ${basename(path)}`);
  const parsed = parseDefinition(file.bytes.toString("utf8"));
  if ("fault" in parsed) throw new FileFault(`${path}: ${parsed.fault}`);
  const { definition } = parsed;
  const name = definition.name ?? candidate.name;
  if (!nameForm.test(name) || name === "auto")
    throw new FileFault(`${path}: ${name} cannot be the name of a profile`);
  const layer = { name, candidate, definition, settings: {}, mcpServers: {} };
  if (directory === null) return layer;

  // What will be copied for a job is looked through now, so that a bad link shows before a job needs it.
  await copiedFiles([layer]);
  return {
    ...layer,
    settings: (await readJsonObject({ root, path: join(directory, ".claude", "settings.json") })) ?? {},
    mcpServers: (await readMcpServers({ root, path: join(directory, ".mcp.json") })) ?? {},
  };
};
