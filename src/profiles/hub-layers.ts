import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { suggestion } from "../lib/nearest.ts";
import type { Catalog } from "./catalog.ts";
import { FileFault, readContained } from "./contained.ts";
import { copiedDirectories } from "./copied-files.ts";
import { isBroken, loadLayer } from "./load.ts";
import type { Layer } from "./load.ts";
import type { Watched } from "./marks.ts";
import { isUsable } from "./resolve.ts";

type Request = {
  /** Checkout of the hub. */
  hubPath: string;
  name: string;
  /** Profiles that agents may extend. */
  catalog: Catalog;
  /** Told of everything that the answer depends on, before it is read. */
  watch: (watched: readonly Watched[]) => Promise<void>;
};

/** The agent and those it extends, furthest first, with the text of `package/system.md` nearest to the agent. */
export type AgentLayers = { layers: Layer[]; systemPrompt: string | null };

/** Of `system.md`: 256 KiB. */
const maxPromptBytes = 262_144;

/**
 * Reads an agent of the hub. What it `extends` is another agent, or, when the hub has none of that name, a profile; an
 * agent that extends its own name means the profile.
 * @throws FileFault
 */
export const loadAgentLayers = async (request: Request): Promise<AgentLayers> => {
  const agents = join(request.hubPath, "agents");
  const { name, catalog, watch } = request;
  await watch([{ path: agents, deep: false }]);
  await mustBeThere(request);
  const chain: Layer[] = [];
  let systemPrompt: string | null = null;
  for (let wanted = name; ;) {
    if (chain.some((layer) => layer.name === wanted)) throw inCircle([...chain].reverse(), wanted);
    const layer = await loadAgent(agents, wanted, watch);
    chain.unshift(layer);
    systemPrompt ??= await readPrompt(agents, wanted);
    const next = layer.definition.extends;
    if (!next) return { layers: chain, systemPrompt };
    if (next === wanted || !(await isDirectory(join(agents, next))))
      return { layers: [...profileLayers(layer, next, catalog), ...chain], systemPrompt };
    wanted = next;
  }
};

const mustBeThere = async ({ hubPath, name }: Request): Promise<void> => {
  if (!(await isDirectory(hubPath)))
    throw new FileFault(
      `SERVICE_HUB_PATH is ${hubPath}, which is no directory; check the agent hub out there`,
    );
  const agents = join(hubPath, "agents");
  if (await isDirectory(join(agents, name))) return;
  const known = (await readdir(agents, { withFileTypes: true }).catch(() => []))
    .flatMap((entry) => (entry.isDirectory() ? [entry.name] : []))
    .toSorted();
  const choice = known.length === 0 ? "it has no agents" : `there are ${known.slice(0, 50).join(", ")}`;
  throw new FileFault(`there is no directory ${join(agents, name)}; ${choice}${suggestion(name, known)}`);
};

const loadAgent = async (agents: string, name: string, watch: Request["watch"]): Promise<Layer> => {
  const file = join(agents, name, "agent.yml");
  const directory = join(agents, name, "package");
  const shallow = ["", "CLAUDE.md", "system.md", ".mcp.json", ".claude", ".claude/settings.json"];
  await watch([
    { path: file, deep: false },
    ...shallow.map((path) => ({ path: join(directory, path), deep: false })),
    ...watchedFilesOf(directory),
  ]);
  const root = { path: agents, label: null };
  const layer = await loadLayer({ name, root, rank: 0, file, directory, isPackage: true, fault: null });
  if (isBroken(layer)) throw new FileFault(layer.fault);
  if (layer.name !== name) {
    const wayOut = `leave name out, or rename the directory to ${layer.name}`;
    throw new FileFault(`${file}: name is ${layer.name}, but an agent is known by its directory; ${wayOut}`);
  }
  return layer;
};

/** The files of a profile or package that are copied. */
export const watchedFilesOf = (directory: string): Watched[] => [
  { path: join(directory, ".claude", "CLAUDE.md"), deep: false },
  ...copiedDirectories.map((name) => ({ path: join(directory, ".claude", name), deep: true })),
];

const readPrompt = async (agents: string, name: string): Promise<string | null> => {
  const path = join(agents, name, "package", "system.md");
  const file = await readContained({ root: agents, path, maxBytes: maxPromptBytes });
  const text = file?.bytes.toString("utf8").trim() ?? "";
  return text === "" ? null : text;
};

const profileLayers = ({ candidate }: Layer, wanted: string, catalog: Catalog): readonly Layer[] => {
  const entry = catalog.get(wanted);
  if (entry === undefined) {
    const sentence = `extends ${wanted}, and there is no other agent and no profile of that name`;
    throw new FileFault(`${candidate.file}: ${sentence}`);
  }
  if (isUsable(entry)) return entry.chain;
  throw new FileFault(
    `${candidate.file}: extends the profile ${wanted}, which cannot be used: ${entry.profile.error}`,
  );
};

const inCircle = (chain: readonly Layer[], wanted: string): FileFault => {
  const names = [...chain.map(({ name }) => name), wanted].join(" → ");
  return new FileFault(`${chain.at(-1)?.candidate.file}: extends in a circle: ${names}`);
};

const isDirectory = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => null))?.isDirectory() ?? false;
