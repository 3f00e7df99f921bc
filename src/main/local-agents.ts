import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { locateCli } from "../agents/claude/locate.ts";
import { companionsDirectory, createCompanions } from "../companions/companions.ts";
import type { Settings } from "../config/variables.ts";
import { createLog } from "../lib/log.ts";
import { FileFault } from "../profiles/contained.ts";
import type { Definition } from "../profiles/definition.ts";
import { isBroken, loadRoot, type BrokenLayer, type Layer } from "../profiles/load.ts";
import { hubRoot } from "../profiles/roots.ts";

/** An agent package on this machine. */
export type LocalAgent = {
  name: string;
  /** Its directory; of one that cannot be used perhaps a file. */
  path: string;
  description: string | null;
  /** Why it cannot be used, a sentence that names the file; null: it can. */
  error: string | null;
  /** Its `agent.yml`, without what it extends; null: it cannot be used. */
  config: Definition | null;
  /** Names of the servers in its `.mcp.json`. */
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
  const { files } = createCompanions({
    settings: { ...settings, hubPath: directory ?? settings.hubDir ?? settings.hubPath },
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
  return (await loadRoot(hub)).map(agentOf);
};

const agentOf = (layer: Layer | BrokenLayer): LocalAgent => {
  const { name, source } = layer;
  const usable = isBroken(layer) ? null : layer;
  return {
    name,
    path: source.parts === null ? source.file : dirname(source.file),
    description: usable?.definition.description ?? null,
    error: isBroken(layer) ? layer.fault.message : null,
    config: usable?.definition ?? null,
    mcp_servers: Object.keys(usable?.mcpServers ?? {}),
    system_prompt: usable?.prompt ?? null,
  };
};

/** The agent CLI for conversations with them. */
export const localAgentCli = ({ agentCliBinary }: Settings): Promise<string> =>
  locateCli(agentCliBinary, process.env["PATH"]);
