import { join } from "node:path";
import { z } from "zod";
import { loginDirectory } from "../config/model-credential.ts";
import type { Settings } from "../config/variables.ts";
import { everyHost, parseHosts } from "../lib/allowed-hosts.ts";
import { isBelow } from "../lib/is-below.ts";
import type { Allowed } from "../sandbox/sandbox.ts";

const units: Readonly<Record<string, number>> = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 };

/** Bytes, as a number or like 300M and 2G. */
const size = z
  .union([z.number(), z.string()], "must be bytes, or like 300M or 2G")
  .transform((value, context) => {
    const [, digits, unit = ""] = /^([1-9]\d{0,14})([KMGT]?)$/.exec(String(value)) ?? [];
    if (digits !== undefined) return Number(digits) * (units[unit] ?? 1);
    context.addIssue("must be bytes, or like 300M or 2G");
    return z.NEVER;
  });

export const hostList = z
  .array(z.string("must be text"), "must be a list of hosts")
  .superRefine((names, context) => {
    try {
      parseHosts(names);
    } catch (error) {
      context.addIssue(error instanceof Error ? error.message : String(error));
    }
  });

const paths = z.array(
  z
    .string("must be text")
    .regex(/^\/(?!.*\/\.{1,2}(\/|$))[^\0]*$/, "must be an absolute path without . and .."),
  "must be a list of absolute paths",
);

/** `sandbox` of a profile or an agent: what its agent may use beside its worktree and the model. Null means "not set". */
export const SandboxBlock = z.strictObject({
  hosts: hostList.nullish(),
  read: paths.nullish(),
  write: paths.nullish(),
  /** Of all its processes together. */
  memory: size.nullish(),
  processes: z.int("must be a whole number").min(1, "must be at least 1").nullish(),
  /** Room for temporary files. */
  tmp: size.nullish(),
});
export type SandboxBlock = z.infer<typeof SandboxBlock>;

/** Room for temporary files unless the profile says otherwise, bytes. */
const usualTemporary = 2 ** 30;

/** What the operator allows every run: SERVICE_AGENT_SANDBOX_HOSTS, _READ, _WRITE. */
export type ServiceWide = { hosts: readonly string[]; read: readonly string[]; write: readonly string[] };

/** What the service is set to, for all profiles. */
export type Boundary = {
  serviceWide: ServiceWide;
  /** The service's state, keys, caches and worktrees: no profile may name them. */
  reserved: readonly string[];
};

type Places = Pick<
  Settings,
  | "agentSandboxHosts"
  | "agentSandboxRead"
  | "agentSandboxWrite"
  | "jobsDir"
  | "reposRoot"
  | "worktreeRoot"
  | "agentModeWorkspaces"
  | "sharedFsRoot"
  | "agentHome"
  | "gitHostAppPrivateKeyPath"
  | "gitSigningKey"
  | "kvOptionsFile"
>;

/** `home`: of the service's user. */
export const boundaryOf = (settings: Places, home: string): Boundary => ({
  serviceWide: {
    hosts: settings.agentSandboxHosts,
    read: settings.agentSandboxRead,
    write: settings.agentSandboxWrite,
  },
  reserved: [
    settings.jobsDir,
    settings.reposRoot,
    settings.worktreeRoot,
    settings.agentModeWorkspaces,
    settings.sharedFsRoot,
    settings.gitHostAppPrivateKeyPath,
    settings.gitSigningKey,
    settings.kvOptionsFile,
    loginDirectory(settings),
    join(home, ".service"),
    join(home, ".ssh"),
    // Who reaches a socket that is there, docker's say, is out of the sandbox.
    "/run",
    "/var/run",
  ].filter((path) => path !== null),
});

/** What a run may use: what the operator, its profile and its submission allow, together. */
export const allowedOf = (
  serviceWide: ServiceWide,
  given: SandboxBlock | null | undefined,
  asked: readonly string[] = [],
): Allowed => {
  const block = given ?? {};
  return {
    hosts: [...parseHosts(serviceWide.hosts, true), ...parseHosts([...(block.hosts ?? []), ...asked])],
    read: [...serviceWide.read, ...(block.read ?? [])],
    write: [...serviceWide.write, ...(block.write ?? [])],
    temporaryBytes: block.tmp ?? usualTemporary,
    ...processLimits(block),
  };
};

/** Limits of all processes of a run together. */
export const processLimits = (block: SandboxBlock | null | undefined) => ({
  memoryBytes: block?.memory ?? null,
  processes: block?.processes ?? null,
});

/**
 * Why a profile's sandbox is refused; null: it is not. A profile of a companion may read installed programs only, and
 * neither write nor open the network, unless the operator allows that to all.
 */
export const refusalOf = (
  block: SandboxBlock,
  { reserved, serviceWide, isCompanion }: Boundary & { isCompanion: boolean },
): string | null => {
  for (const key of ["read", "write"] as const)
    for (const path of block[key] ?? []) {
      const other = reserved.find((place) => isBelow(place, path) || isBelow(path, place));
      if (other !== undefined)
        return `sandbox.${key} names ${path}, and no agent may have ${other}: name a directory apart from it`;
    }
  if (!isCompanion) return null;
  const leave = { read: [...installed, ...serviceWide.read], write: serviceWide.write };
  for (const key of ["read", "write"] as const) {
    const unlisted = (block[key] ?? []).find((path) => !leave[key].some((place) => isBelow(path, place)));
    if (unlisted !== undefined)
      return `sandbox.${key} names ${unlisted}, which a profile of a companion may only with the operator's leave: SERVICE_AGENT_SANDBOX_${key.toUpperCase()}`;
  }
  if (block.hosts?.includes(everyHost) === true && !serviceWide.hosts.includes(everyHost))
    return `sandbox.hosts names every public host (${everyHost}), which a profile of a companion may only with the operator's leave: SERVICE_AGENT_SANDBOX_HOSTS`;
  return null;
};

/** Where no secrets and no sockets are to be expected. */
const installed = ["/opt", "/usr"];
