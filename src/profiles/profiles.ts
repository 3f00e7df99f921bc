import { definedChecks } from "./checks.ts";
import { realpath } from "node:fs/promises";
import { relative, resolve } from "node:path";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { Profile } from "../contract/profile.ts";
import { noOptions } from "../contract/run-options.ts";
import { catalogReader, lineage, type Layers } from "./catalog.ts";
import { FileFault, isInside, readMcpServers, type JsonObject } from "./contained.ts";
import { copiedFiles } from "./copied-files.ts";
import { discardConfigDirectory, materialise, directoriesOf, findTranscript } from "./materialise.ts";
import { ProfileError, type Profiles, type ResolvedProfile } from "./profile.ts";
import { profileRoots, type CompanionReader, type Root } from "./roots.ts";
import type { Log } from "../lib/log.ts";
import { allowedOf, type Boundary, processLimits } from "./sandbox-policy.ts";
import { suggestion } from "../lib/nearest.ts";
import type { Definition } from "./definition.ts";
import { ruleFor } from "./match.ts";
import { setupFor } from "./setup.ts";
import { isBroken, type BrokenLayer, type Layer } from "./load.ts";
import { limitsOf, loadPackage, withOptions, type Plan } from "./plan.ts";

type Request = {
  settings: Pick<Settings, "sharedFsRoot" | "defaultProfile" | "hooksProfile" | "agentCliTimeout">;
  companions: CompanionReader;
  boundary: Boundary;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
  /** Directories to read profiles from, later wins. */
  roots?: Root[];
  log: Pick<Log, "warn">;
};

export const createProfiles = (request: Request): Profiles => {
  const { settings, companions, boundary, home, now = Date.now, roots, log } = request;
  const { sharedFsRoot, agentCliTimeout } = settings;
  const directories = directoriesOf({ home, sharedFsRoot, now, log });
  const catalog = catalogReader({
    roots: async () => roots ?? (await profileRoots({ home, sharedFsRoot, companions })),
    make: (layers) => resolveProfiles(layers, boundary),
    now,
  });
  return {
    list: async () => [...(await catalog()).values()].map(({ profile }) => Profile.parse(profile)),
    route: async (request) => {
      const { chosen, rule } = choose(await catalog(), { ...request, settings });
      return { ...chosen.profile, rule, limits: limitsOf(chosen.plan, agentCliTimeout) };
    },
    checkMcpFile: async (filePath) => {
      await requestedMcpServers(filePath, sharedFsRoot).catch((error: unknown) => {
        throw error instanceof ProfileError
          ? new ServiceError("invalid_request", error.message, { cause: error })
          : error;
      });
    },
    pin: async (name) => {
      const entry = (await catalog()).get(name);
      if (entry === undefined)
        throw new ProfileError("profile_invalid", `Profile ${name} was removed after the task was submitted`);
      if (entry.usable === null) throw unusable(name, String(entry.profile.error));
      const { profile, plan, chain } = entry.usable;
      return {
        ...profile,
        limits: limitsOf(plan, agentCliTimeout),
        materialise: async ({ filePath, options = noOptions, allowHosts = [], ...job }) => {
          const requested = await requestedMcpServers(filePath, sharedFsRoot);
          const files = await copiedFiles(chain).catch((error: unknown) => {
            throw error instanceof FileFault ? unusable(name, error.message, error) : error;
          });
          const block = withOptions(plan, options, agentCliTimeout);
          return materialise(directories, {
            id: job.jobId,
            plan: { ...plan, block, mcpServers: { ...plan.mcpServers, ...requested } },
            files,
            worktree: profile.worktree ? { id: job.worktreeId, path: job.worktreePath } : null,
            profile: name,
            repoKey: job.repoKey,
            timeoutSeconds: block.timeout,
            allowed: allowedOf(boundary.serviceWide, plan.sandbox, profile.allowHost ? allowHosts : []),
          });
        },
      };
    },
    discard: (jobId) => discardConfigDirectory(directories, jobId),
    findTranscript: (sessionId, cwd) => findTranscript(directories.projects, sessionId, cwd),
    noteSession: directories.transcripts.noteSession,
  };
};

const unusable = (name: string, fault: string, cause?: unknown): ProfileError =>
  new ProfileError("profile_invalid", `Profile ${name} cannot be used: ${fault}`, { cause });

/**
 * The servers of the request's MCP file. A relative path starts at the shared root.
 * @throws ProfileError `mcp_config_invalid`
 */
const requestedMcpServers = async (filePath: string, sharedFsRoot: string | null): Promise<JsonObject> => {
  if (filePath === "") return {};
  const invalid = (message: string, cause?: unknown) =>
    new ProfileError("mcp_config_invalid", message, { cause });
  if (sharedFsRoot === null) {
    throw invalid(
      "file_path needs SERVICE_SHARED_FS_ROOT, under which the file must lie; set it, or leave file_path out",
    );
  }
  if (filePath.includes("\0")) throw invalid("file_path holds a NUL character");
  const path = resolve(sharedFsRoot, filePath);
  // Checked before the file is touched, so that the answer reveals nothing about other files.
  if (!isInside(sharedFsRoot, path) && !isInside(await realRoot(sharedFsRoot), path)) {
    throw invalid(`file_path must lie under SERVICE_SHARED_FS_ROOT (${sharedFsRoot}); ${path} does not`);
  }
  const servers = await readMcpServers(sharedFsRoot, path).catch((error: unknown) => {
    throw error instanceof FileFault ? invalid(`file_path: ${error.message}`, error) : error;
  });
  if (servers === null) throw invalid(`file_path: there is no file ${path}`);
  return servers;
};

const realRoot = (root: string): Promise<string> => realpath(root).catch(() => root);

/** A profile as it is listed. `usable`: all for routing and materialising; null: `profile.error` says why not. */
type Entry = {
  profile: Profile;
  /** The hook package has a profile of that name, which later directories may override. */
  isInHooks: boolean;
  usable: Usable | null;
};

/** `chain`: the profile with those that it extends, furthest first. */
type Usable = { profile: ResolvedProfile; plan: Plan; match: Definition["match"]; chain: Layer[] };

/** Profiles by name, sorted. */
type Entries = ReadonlyMap<string, Entry>;

type RouteRequest = {
  /** Empty or `auto`: by the rules. */
  name: string;
  task: string;
  repoUrl: string;
  settings: Pick<Settings, "defaultProfile" | "hooksProfile">;
};

/**
 * `rule`: `requested`, the matching `match` rule, or the variable that names the default.
 * @throws ServiceError `unknown_profile`, `invalid_profile`
 */
const choose = (
  entries: Entries,
  { name, task, repoUrl, settings }: RouteRequest,
): { chosen: Usable; rule: string } => {
  if (name !== "" && name !== "auto") return { chosen: required(entries, name, ""), rule: "requested" };
  for (const { usable } of entries.values()) {
    const rule = usable === null ? undefined : ruleFor(usable.match, { task, repoUrl });
    if (usable !== null && rule !== undefined) return { chosen: usable, rule };
  }
  const { defaultProfile, hooksProfile } = settings;
  const byHooks = defaultProfile === null && entries.get(hooksProfile)?.isInHooks === true;
  const rule = byHooks ? "HOOKS_PROFILE" : "SERVICE_DEFAULT_PROFILE";
  const usual = byHooks ? hooksProfile : (defaultProfile ?? "code");
  return { chosen: required(entries, usual, ` (${rule})`), rule };
};

const required = (entries: Entries, name: string, origin: string): Usable => {
  const entry = entries.get(name);
  if (entry === undefined) {
    const known = [...entries].flatMap(([other, { usable }]) => (usable === null ? [] : [other]));
    const choice = `use one of ${known.join(", ")}, or leave it empty`;
    const message = `There is no profile ${JSON.stringify(name)}${origin}; ${choice}${suggestion(name, known)}`;
    throw new ServiceError("unknown_profile", message);
  }
  if (entry.usable !== null) return entry.usable;
  const message = `Profile ${name}${origin} cannot be used: ${entry.profile.error}`;
  throw new ServiceError("invalid_profile", message);
};

const resolveProfiles = (layers: Layers, boundary: Boundary): Entries =>
  new Map(
    [...layers]
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([name, all]) =>
        all.slice(-1).map((last) => [name, entryOf(last, all, { layers, boundary })] as const),
      ),
  );

/** `all`: those of its name, in search order; it is the last. */
const entryOf = (
  layer: Layer | BrokenLayer,
  all: readonly (Layer | BrokenLayer)[],
  { layers, boundary }: { layers: Layers; boundary: Boundary },
): Entry => {
  const isInHooks = all.some(({ source }) => source.root.name === "hooks");
  try {
    if (isBroken(layer)) throw layer.fault;
    const usable = load(layer, lineage(layer, layers), boundary);
    return { profile: usable.profile, isInHooks, usable };
  } catch (fault) {
    if (!(fault instanceof FileFault)) throw fault;
    const profile = { ...unknown, name: layer.name, source: sourceOf(layer), error: fault.message };
    return { profile, isInHooks, usable: null };
  }
};

/** Values of a profile that omits them; one that extends another inherits the other's instead. */
const defaults = { model: "sonnet", permission_mode: "default", worktree: true } as const;

const wantedBy = ({ submodules, lfs, sandbox }: Definition): ResolvedProfile["wanted"] => ({
  submodules: submodules ?? false,
  lfs: lfs ?? false,
  limits: processLimits(sandbox),
});

const load = (layer: Layer, chain: Layer[], boundary: Boundary): Usable => {
  const { definition, readOnly, plan } = loadPackage({ chain, defaults, opensPullRequests: true, boundary });
  const { block } = plan;
  return {
    profile: {
      name: layer.name,
      description: definition.description ?? "",
      model: block.model,
      max_turns: block.max_turns ?? null,
      worktree: block.worktree,
      auto_pr: definition.auto_pr ?? false,
      permission_mode: block.permission_mode,
      budget_day_usd: definition.budget_day_usd ?? null,
      source: sourceOf(layer),
      error: null,
      // One that may only read can answer as it understands the task.
      questions: definition.questions ?? (readOnly ? "never" : "ask"),
      plan: definition.plan ?? false,
      wanted: wantedBy(definition),
      onLimit: definition.on_limit ?? null,
      deliver: definition.deliver ?? {},
      setupFor: (repoUrl) => setupFor(definition.setup ?? [], repoUrl),
      checks: definedChecks(definition.checks),
      checkRounds: definition.check_rounds ?? 2,
      repositoryChecks: definition.checks_from === "repository",
      onRed: definition.on_red ?? "none",
      retryLost: definition.retry_lost ?? false,
      readOnly,
      allowHost: definition.allow_host ?? false,
    },
    plan,
    match: definition.match,
    chain,
  };
};

/** Of a profile that cannot be used. */
const unknown = {
  description: "",
  model: "",
  max_turns: null,
  worktree: false,
  auto_pr: false,
  permission_mode: "",
  budget_day_usd: null,
};

const sourceOf = ({ source: { root, parts, file } }: Layer | BrokenLayer): string => {
  const path = parts ?? file;
  if (root.label !== undefined) return `${root.label}/${relative(root.path, path)}`;
  return root.name === "bundled" ? root.name : path;
};
