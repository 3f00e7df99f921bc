import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { companionsDirectory, createCompanions } from "../companions/companions.ts";
import type { Settings } from "../config/variables.ts";
import { createLog } from "../lib/log.ts";
import { catalogReader, inherit, lineage, type Layers } from "../profiles/catalog.ts";
import { FileFault } from "../profiles/contained.ts";
import type { Definition } from "../profiles/definition.ts";
import { isBroken, type BrokenLayer, type Layer } from "../profiles/load.ts";
import { hubRoot, profileRoots } from "../profiles/roots.ts";

/** An agent package on this machine. */
export type LocalAgent = {
  name: string;
  /** Its directory; of one that cannot be used perhaps a file. */
  path: string;
  description: string | null;
  /** Why it cannot be used, a sentence that names the file; null: it can. */
  error: string | null;
  /** `agent.yml` with what it extends; null: it cannot be used. */
  config: Definition | null;
  /** Names of its own servers. */
  mcp_servers: string[];
  /** Its `package/system.md`; null: none. */
  system_prompt: string | null;
};

type Request = { settings: Settings; home: string; /** Instead of HUB_DIR. */ directory: string | undefined };

/**
 * The packages in `agents/` of the directory, else of HUB_DIR, else of this user's agent hub, by name; none without any.
 * @throws FileFault when there is no such directory
 */
export const localAgents = async ({ settings, home, directory }: Request): Promise<LocalAgent[]> => {
  const { hubDir, hubPath, sharedFsRoot } = settings;
  const { files } = createCompanions({
    settings: { ...settings, hubPath: directory ?? hubDir ?? hubPath },
    directory: companionsDirectory(home),
    checkOut: () => Promise.reject(new Error("nothing is fetched here")),
    now: () => new Date(),
    log: createLog("silent", (text) => text),
  });
  const hub = await hubRoot(files);
  if (hub === null) return [];
  if (!existsSync(hub.path))
    throw new FileFault(
      `There is no directory ${hub.path}: name a checkout of the agent hub, which has agents/`,
    );
  const read = catalogReader({
    roots: async () => [...(await profileRoots({ home, sharedFsRoot, companions: files })), hub],
    make: (layers) =>
      [...layers.values()]
        .flat()
        .flatMap((layer) => (layer.source.root === hub ? [agentOf(layer, layers)] : [])),
    now: Date.now,
  });
  return (await read()).toSorted((a, b) => (a.name < b.name ? -1 : 1));
};

const agentOf = (layer: Layer | BrokenLayer, layers: Layers): LocalAgent => {
  const { name, source } = layer;
  const path = source.parts === null ? source.file : dirname(source.file);
  const broken = { name, path, description: null, config: null, mcp_servers: [], system_prompt: null };
  if (isBroken(layer)) return { ...broken, error: layer.fault.message };
  try {
    const config = inherit(lineage(layer, layers));
    const { mcpServers, prompt } = layer;
    return {
      name,
      path,
      description: config.description ?? null,
      error: null,
      config,
      mcp_servers: Object.keys(mcpServers),
      system_prompt: prompt,
    };
  } catch (error) {
    if (error instanceof FileFault) return { ...broken, error: error.message };
    throw error;
  }
};
