import type { AgentLaunch } from "../agents/agent.ts";
import type { JobSetup } from "../contract/setup.ts";
import { mayReachAgent } from "../contract/variable-name.ts";
import { grantedHosts, judgeHost, parseHosts, type AllowedHost } from "../lib/allowed-hosts.ts";
import type { SetupCache, SetupKeys, SetupService } from "../profiles/setup.ts";

type Allowed = AgentLaunch["allowed"];

/** How a worktree is made ready, all keys decided. */
export type Setup = {
  /** Commands for `sh -c`, in the worktree; `each` comes after the services have begun. */
  run: string[];
  services: SetupService[];
  each: string[];
  /** The results of `run` that are kept; null: none. */
  cache: SetupCache | null;
  /** Seconds, of all commands. */
  timeout: number;
  goesOnFailed: boolean;
  env: Record<string, string>;
  /** Those of `env` that the agent's CLI does not get, because the repository says them. */
  withheld: Record<string, string>;
  /** Hosts that the profile names, and those that the repository asks for. */
  hosts: string[];
  asked: string[];
  /** By program. */
  versions: Record<string, string>;
};

/** How commands went, for the record; `failure`: why the agent should not be started. */
export type Ended = Pick<JobSetup, "exit_code"> & { log: string; failure: Failure | null };

/** `isFinal`: whatever `on_failure` says. */
export type Failure = { sentence: string; retryable: boolean; isFinal: boolean };

/** Seconds that a setup may take which does not say. */
const usualTimeout = 600;

/**
 * What holds of the repository's file and what the profile says for the repository; null: there is nothing to do.
 *
 * | the file has the key | the profile has it | holds |
 * |----------------------|--------------------|-----------------------------------------------------------|
 * | yes                  | no                 | the file's; its hosts are `asked` for: see `reachOf`      |
 * |                      | yes                | the profile's                                             |
 * | no                   | no                 | none; `timeout` 600, `on_failure` fail                    |
 */
export const setupOf = (file: SetupKeys | null, profile: SetupKeys | null): Setup | null => {
  if (file === null && profile === null) return null;
  const said = <Key extends keyof SetupKeys>(key: Key, usual: NonNullable<SetupKeys[Key]>) =>
    profile?.[key] ?? file?.[key] ?? usual;
  return {
    run: said("run", []),
    services: said("services", []),
    each: said("each", []),
    cache: profile?.cache ?? file?.cache ?? null,
    timeout: said("timeout", usualTimeout),
    goesOnFailed: said("on_failure", "fail") === "continue",
    env: said("env", {}),
    withheld: withheldOf(profile, file),
    hosts: profile?.hosts ?? [],
    asked: profile?.hosts ? [] : (file?.hosts ?? []),
    versions: said("versions", {}),
  };
};

const withheldOf = (profile: SetupKeys | null, file: SetupKeys | null): Setup["withheld"] =>
  profile?.env
    ? {}
    : Object.fromEntries(Object.entries(file?.env ?? {}).filter((each) => !mayReachAgent(...each)));

/**
 * What a setup may use: what its agent may, and its own hosts. `permitted`: what the operator lets repositories name.
 *
 * | a host is named by | and                                                  | it is reached                  |
 * |--------------------|------------------------------------------------------|--------------------------------|
 * | the profile        |                                                      | yes                            |
 * | the repository     | its agent may reach it, or it is permitted           | yes                            |
 * | the repository     | neither                                              | no: it is among the `refused`  |
 * | the repository     | only `*` permits it, and it is in a private network  | no, by the door                |
 * | either             | it is an address of this host, with a port           | only if the operator names it  |
 */
export const reachOf = (
  { hosts, asked }: Pick<Setup, "hosts" | "asked">,
  agent: Allowed,
  permitted: readonly string[],
): { allowed: Allowed; refused: string[] } => {
  const listed = [...agent.hosts, ...parseHosts(permitted, true)];
  const refused = parseHosts(asked).filter((host) => judgeHost(listed, host) === "refused");
  const granted = [
    ...parseHosts(hosts).map((host) => ({ ...host, local: judgeHost(listed, host) === "local" })),
    ...grantedHosts(asked, listed).filter((host) => judgeHost(listed, host) !== "refused"),
  ];
  return { allowed: { ...agent, hosts: [...agent.hosts, ...granted] }, refused: refused.map(textOf) };
};

/**
 * What commands that have values may use: `refused` are hosts that they would reach without. To hosts of presets only requests
 * that read go.
 *
 * | a host is                            | it is reached |
 * |--------------------------------------|---------------|
 * | named with one of the secrets        | yes           |
 * | in SERVICE_SETUP_HOSTS (`permitted`) | yes           |
 * | anything else, whoever names it      | no            |
 */
export const reachWithSecrets = (
  { hosts, asked, permitted = [] }: Pick<Setup, "hosts" | "asked"> & { permitted?: readonly string[] },
  agent: Allowed,
  secretHosts: readonly string[],
): { allowed: Allowed; refused: string[] } => {
  const reached = [...parseHosts(permitted, true), ...grantedHosts(secretHosts, agent.hosts)];
  const refused = parseHosts([...hosts, ...asked]).filter((host) => judgeHost(reached, host) === "refused");
  return { allowed: { ...agent, hosts: reached }, refused: [...new Set(refused.map(textOf))] };
};

const textOf = ({ name, port }: AllowedHost): string => (port === null ? name : `${name}:${port}`);

/** All commands in one shell's script, each in a shell of its own: the first that fails ends it. */
export const scriptOf = (commands: readonly string[]): string =>
  commands
    .map((command) => `printf '%s\\n' ${quoted(`$ ${command}`)}; sh -c ${quoted(command)} || exit $?`)
    .join("\n");

export const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Says a line for each program: its name and what it says of its version, if it is there. */
export const versionScript = (versions: Setup["versions"]): string =>
  Object.keys(versions)
    .map((name) => `echo "${name}: $({ ${name} --version || ${name} version; } 2>/dev/null | head -n 1)"`)
    .join("\n");

/**
 * What is missing by what `versionScript` said.
 *
 * | wanted | the program says       | missing                              |
 * |--------|------------------------|--------------------------------------|
 * | 24     | v24.1.0                | nothing                              |
 * | 24     | v22.9.0, v240.0        | `node 24 (22.9.0 is there)`          |
 * | 24     | nothing                | `node 24`                            |
 */
export const missingVersions = (versions: Setup["versions"], said: string): string[] => {
  const lines = said.split("\n");
  return Object.entries(versions).flatMap(([name, wanted]) => {
    const line = lines.find((each) => each.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
    const [found] = /\d+(\.\d+)*/.exec(line) ?? [];
    if (found === undefined) return [`${name} ${wanted}`];
    return `${found}.`.startsWith(`${wanted}.`) ? [] : [`${name} ${wanted} (${found} is there)`];
  });
};
