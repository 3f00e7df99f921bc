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
import { suggestion } from "../lib/nearest.ts";
import type { Definition } from "./definition.ts";
import { ruleFor } from "./match.ts";
import { isBroken, type BrokenLayer, type Layer } from "./load.ts";
import { limitsOf, loadPackage, withOptions, type Plan } from "./plan.ts";

type Request = {
  settings: Pick<Settings, "sharedFsRoot" | "defaultProfile" | "hooksProfile" | "agentCliTimeout">;
  companions: CompanionReader;
  /** Home directory of the service's user. */
  home: string;
  /** Milliseconds. */
  now?: () => number;
  /** Directories to read profiles from, later wins. */
  roots?: Root[];
  log: Pick<Log, "warn">;
};

export const createProfiles = ({
  settings,
  companions,
  home,
  now = Date.now,
  roots,
  log,
}: Request): Profiles => {
  const { sharedFsRoot, agentCliTimeout } = settings;
  const directories = directoriesOf({ home, sharedFsRoot, now, log });
  const catalog = catalogReader({
    roots: async () => roots ?? (await profileRoots({ home, sharedFsRoot, companions })),
    make: resolveProfiles,
    now,
  });
  return {
    list: async () => [...(await catalog()).values()].map(({ profile }) => Profile.parse(profile)),
    route: async (request) => {
      const { entry, rule } = choose(await catalog(), { ...request, settings });
      return { ...entry.profile, rule, limits: limitsOf(entry.plan, agentCliTimeout) };
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
      if (!isUsable(entry)) throw unusable(name, entry.profile.error);
      const { profile, plan, chain } = entry;
      return {
        ...profile,
        materialise: async ({
          jobId,
          worktreePath,
          worktreeId,
          repoKey,
          filePath,
          options = noOptions,
          taskFiles = [],
        }) => {
          const requested = await requestedMcpServers(filePath, sharedFsRoot);
          const files = await copiedFiles(chain).catch((error: unknown) => {
            throw error instanceof FileFault ? unusable(name, error.message, error) : error;
          });
          const block = withOptions(plan, options, agentCliTimeout);
          return materialise(directories, {
            id: jobId,
            plan: { ...plan, block, mcpServers: { ...plan.mcpServers, ...requested } },
            files,
            taskFiles,
            worktree: profile.worktree ? { id: worktreeId, path: worktreePath } : null,
            profile: name,
            repoKey,
            timeoutSeconds: block.timeout,
          });
        },
      };
    },
    discard: (jobId) => discardConfigDirectory(directories, jobId),
    findTranscript: (sessionId) => findTranscript(directories.projects, sessionId),
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

type RouteRequest = {
  /** Empty or `auto`: by the rules. */
  name: string;
  task: string;
  repoUrl: string;
  settings: Pick<Settings, "defaultProfile" | "hooksProfile">;
};

/** `rule`: `requested`, the matching `match` rule, or the variable that names the default. */
type Choice = { entry: UsableProfile; rule: string };

/** @throws ServiceError `unknown_profile`, `invalid_profile` */
const choose = (profiles: ProfilesByName, { name, task, repoUrl, settings }: RouteRequest): Choice => {
  if (name !== "" && name !== "auto") return { entry: usable(profiles, name, ""), rule: "requested" };
  for (const entry of [...profiles.values()].filter(isUsable)) {
    const rule = ruleFor(entry.match, { task, repoUrl });
    if (rule !== undefined) return { entry, rule };
  }
  const { defaultProfile, hooksProfile } = settings;
  if (defaultProfile === null && profiles.get(hooksProfile)?.isInHooks === true)
    return { entry: usable(profiles, hooksProfile, " (HOOKS_PROFILE)"), rule: "HOOKS_PROFILE" };
  const rule = "SERVICE_DEFAULT_PROFILE";
  return { entry: usable(profiles, defaultProfile ?? "code", ` (${rule})`), rule };
};

const usable = (profiles: ProfilesByName, name: string, origin: string): UsableProfile => {
  const entry = profiles.get(name);
  if (entry === undefined) {
    const known = [...profiles].flatMap(([other, candidate]) => (isUsable(candidate) ? [other] : []));
    const choice = `use one of ${known.join(", ")}, or leave it empty`;
    throw new ServiceError(
      "unknown_profile",
      `There is no profile ${JSON.stringify(name)}${origin}; ${choice}${suggestion(name, known)}`,
    );
  }
  if (isUsable(entry)) return entry;
  throw new ServiceError(
    "invalid_profile",
    `Profile ${name}${origin} cannot be used: ${entry.profile.error}`,
  );
};

/** A usable profile: everything for routing and materialising. */
type UsableProfile = {
  profile: ResolvedProfile;
  plan: Plan;
  match: Definition["match"];
  /** The profile with those that it extends, furthest first. */
  chain: Layer[];
  isInHooks: boolean;
};

/** `isInHooks`: the hook package has a profile of that name, which later directories may override. */
type BrokenProfile = { profile: Profile & { error: string }; isInHooks: boolean };

/** Profiles by name, sorted. */
type ProfilesByName = ReadonlyMap<string, UsableProfile | BrokenProfile>;

const isUsable = (entry: UsableProfile | BrokenProfile): entry is UsableProfile => "chain" in entry;

/** Values of a profile that omits them; one that extends another inherits the other's instead. */
const defaults = { model: "sonnet", permission_mode: "default", worktree: true } as const;

const resolveProfiles = (layers: Layers): ProfilesByName => {
  const names = [...layers.keys()].toSorted((a, b) => (a < b ? -1 : 1));
  return new Map(
    names.flatMap((name) => {
      const all = layers.get(name) ?? [];
      const last = all.at(-1);
      const isInHooks = all.some(({ source }) => source.root.name === "hooks");
      return last === undefined ? [] : [[name, { ...resolveProfile(last, layers), isInHooks }]];
    }),
  );
};

type Resolved = Omit<UsableProfile, "isInHooks"> | Omit<BrokenProfile, "isInHooks">;

/** Applies `extends`, defaults and the rules that join several keys. */
const resolveProfile = (layer: Layer | BrokenLayer, layers: Layers): Resolved => {
  if (isBroken(layer)) return brokenProfile(layer, layer.fault);
  try {
    return usableProfile(layer, lineage(layer, layers));
  } catch (error) {
    if (error instanceof FileFault) return brokenProfile(layer, error);
    throw error;
  }
};

const usableProfile = (layer: Layer, chain: Layer[]): Omit<UsableProfile, "isInHooks"> => {
  const { definition, readOnly, plan } = loadPackage({ chain, defaults, opensPullRequests: true });
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
      retryLost: definition.retry_lost ?? false,
      readOnly,
    },
    plan,
    match: definition.match,
    chain,
  };
};

const sourceOf = ({ source: { root, parts, file } }: Layer | BrokenLayer): string => {
  const path = parts ?? file;
  if (root.label !== undefined) return `${root.label}/${relative(root.path, path)}`;
  return root.name === "bundled" ? root.name : path;
};

const brokenProfile = (layer: Layer | BrokenLayer, fault: FileFault): Omit<BrokenProfile, "isInHooks"> => ({
  profile: {
    name: layer.name,
    description: "",
    model: "",
    max_turns: null,
    worktree: false,
    auto_pr: false,
    permission_mode: "",
    budget_day_usd: null,
    source: sourceOf(layer),
    error: fault.message,
  },
});
