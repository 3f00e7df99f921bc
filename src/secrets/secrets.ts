import { ServiceError } from "../contract/errors.ts";
import {
  isPlain,
  type Secret,
  type SecretIdentity,
  type SecretPhase,
  secretPhases,
  type SetSecretInput,
} from "../contract/secret.ts";
import { addressesOf, byTheSystem, mayLeadTo } from "../lib/addresses.ts";
import { grantedHosts, judgeHost, parseHosts } from "../lib/allowed-hosts.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import { matchesRepository } from "../profiles/match.ts";
import type { SecretRecord, SecretStore } from "../store/secret-store.ts";
import { type KeySettings, openKey, placeholderOf, seal, unseal } from "./seal.ts";

type Dependencies = {
  store: SecretStore;
  settings: KeySettings & { agentSandboxHosts: readonly string[]; secretsUnsandboxed: readonly string[] };
  isSandboxed: boolean;
  redact: Pick<Redactor, "add">;
  now: () => Date;
  log: Log;
  /** Ends waiting for the store. */
  signal: AbortSignal;
};

/**
 * What a job gets in a phase.
 *
 * | the secret | jobs run     | named in SERVICE_SECRETS_UNSANDBOXED | its variable has                 |
 * |------------|--------------|--------------------------------------|----------------------------------|
 * | is plain   |              |                                      | the value, `isInside`            |
 * | has hosts  | in a sandbox |                                      | the placeholder                  |
 * |            | without      | yes                                  | the value, `isInside`            |
 * |            |              | no                                   | nothing: the job is refused      |
 */
export type JobSecret = Omit<Secret, "repo" | "phase"> & {
  isInside: boolean;
  value: string;
  placeholder: string;
  /** URLs of the job's repositories whose base has its value: who reads them knows it, and it is not searched for there. */
  publicIn?: readonly string[];
};

export type JobSecrets = Record<SecretPhase, JobSecret[]>;

/** Secrets of jobs: stored sealed, given by repository and phase, masked wherever text leaves the service. */
export const createSecrets = ({ store, settings, isSandboxed, redact, now, log, signal }: Dependencies) => {
  // As long as the process lives: what a job was given stays in what it has written.
  const mask = (text: string): void => redact.add(text, new Date(8.64e15));

  const opened = async (records: readonly SecretRecord[], jobId: string): Promise<JobSecret[]> => {
    if (records.length === 0) return [];
    const key = await openKey(settings, { make: false });
    return records.map((record) => {
      const { repo: _repo, phase: _phase, ...secret } = shown(record);
      const [value, placeholder] = [unseal(key, record), placeholderOf(key, jobId, record)];
      mask(value);
      return { ...secret, value, placeholder, isInside: secret.plain || !isSandboxed };
    });
  };

  /** @throws ServiceError `sandbox_required` */
  const permitted = async (repoUrl: string, phase: SecretPhase): Promise<SecretRecord[]> => {
    const all = matching(await store.ofPhase(phase), repoUrl);
    const hidden = all.filter((secret) => !isSandboxed && !isPlain(secret)).map(({ name }) => name);
    const refused = hidden.filter((name) => !settings.secretsUnsandboxed.includes(name));
    if (refused.length === 0) return all;
    const message = `Jobs run without a sandbox here, and may not have the repository's secrets ${refused.join(", ")}: set up a sandbox (svc doctor), or name them in SERVICE_SECRETS_UNSANDBOXED`;
    throw new ServiceError("sandbox_required", message);
  };

  /** The secrets of a job of the repository in the phase. @throws ServiceError `secrets_unavailable`, `sandbox_required` */
  const forPhase = async (repoUrl: string, phase: SecretPhase, jobId: string): Promise<JobSecret[]> =>
    await opened(await permitted(repoUrl, phase), jobId);

  return {
    list: async (): Promise<Secret[]> => (await store.all()).map(shown).toSorted(byIdentity),

    /** @throws ServiceError `secrets_unavailable`; `invalid_request` for hosts that only the operator may name */
    set: async ({ value, branches, ...known }: SetSecretInput): Promise<Secret> => {
      await requireHosts(known.hosts, settings.agentSandboxHosts);
      const key = await openKey(settings, { make: true });
      const isLimited = isPlain(known) && known.phase === "setup";
      const before = (await store.ofPhase(known.phase)).find((one) => wordOf(one) === wordOf(known));
      const secret = {
        ...known,
        plain: isPlain(known),
        branches: branches ?? (isLimited ? before?.branches : null) ?? [],
        created_at: now().toISOString(),
      };
      mask(value);
      await store.put({ ...secret, sealed: seal(key, secret, value) });
      return secret;
    },

    /** @throws ServiceError `secret_not_found` */
    remove: async (identity: SecretIdentity): Promise<Secret> => {
      const removed = await store.remove(identity);
      if (removed !== null) return shown(removed);
      const { name, repo, phase } = identity;
      const message = `There is no secret ${name} of ${repo} in phase ${phase}; svc secrets list shows all`;
      throw new ServiceError("secret_not_found", message);
    },

    forPhase,
    forJob: async (repoUrl: string, jobId: string): Promise<JobSecrets> => {
      const all = secretPhases.map(async (phase) => [phase, await forPhase(repoUrl, phase, jobId)] as const);
      return Object.fromEntries(await Promise.all(all)) as JobSecrets;
    },

    /** Before a job of the repository is accepted. @throws ServiceError `sandbox_required` */
    requireSandbox: async (repoUrl: string): Promise<void> => {
      for (const phase of secretPhases) await permitted(repoUrl, phase);
    },

    /** After a start, once the store is there: what earlier jobs were given is masked again. Never rejects. */
    maskAll: async (): Promise<void> => {
      const warn = (err: unknown): void => log.warn({ err }, "a secret cannot be read, and is not masked");
      const onFailure = (error: unknown): void => {
        if (!(error instanceof ServiceError) || error.code !== "store_unavailable") throw error;
      };
      const again = { first: 1000, longest: 30_000, signal, onFailure };
      const all = await retry(store.all, again).catch((error: unknown) => {
        if (!signal.aborted) warn(error);
        return [];
      });
      for (const record of all) await opened([record], "").catch(warn);
    },
  };
};

export type Secrets = ReturnType<typeof createSecrets>;

const shown = ({ sealed: _sealed, ...secret }: SecretRecord): Secret => ({
  ...secret,
  plain: isPlain(secret),
});

/** Longest time for the lookup of a name, ms: the door judges each connection anyway. */
const lookupMs = 2000;

/** @throws ServiceError `invalid_request` when one leads to an address that only the operator opens */
const requireHosts = async (hosts: readonly string[], operators: readonly string[]): Promise<void> => {
  for (const host of grantedHosts(hosts, parseHosts(operators, true))) {
    const addresses = (await addressesOf(host.name, byTheSystem, lookupMs)) ?? [];
    if (addresses.every((address) => mayLeadTo(judgeHost([host], host), address))) continue;
    const message = `hosts: ${host.name} leads to a loopback, link-local, private or metadata address, which only the operator opens: name it in SERVICE_AGENT_SANDBOX_HOSTS, with its port`;
    throw new ServiceError("invalid_request", message);
  }
};

const byIdentity = (one: Secret, other: Secret): number => (wordOf(one) < wordOf(other) ? -1 : 1);
const wordOf = ({ name, repo, phase }: SecretIdentity): string => [name, repo, phase].join("\n");

export const variablesOf = (secrets: readonly JobSecret[]): Record<string, string> =>
  Object.fromEntries(
    secrets.map(({ name, isInside, value, placeholder }) => [name, isInside ? value : placeholder]),
  );

/** What the door puts in the place of placeholders. */
export const hiddenOf = (secrets: readonly JobSecret[]): JobSecret[] =>
  secrets.filter(({ isInside }) => !isInside);

/** Values that processes have, and can leave in a worktree of the repository. */
export const valuesInside = (secrets: readonly JobSecret[], repoUrl: string): string[] =>
  searchedValues(
    secrets.filter(({ isInside }) => isInside),
    repoUrl,
  );

/** Values that are searched for in a repository. */
export const searchedValues = (secrets: readonly JobSecret[], repoUrl: string): string[] =>
  secrets.filter(({ publicIn }) => publicIn?.includes(repoUrl) !== true).map(({ value }) => value);

/**
 * Those that a repository gets: of each name the one whose glob is the most specific.
 *
 * | globs of one name that match         | taken                                        |
 * |--------------------------------------|----------------------------------------------|
 * | one is without a wildcard            | that one                                     |
 * | `github.com/acme/*`, `github.com/**` | the one with more signs beside its wildcards |
 * | both have as many                    | the first by alphabet                        |
 * | `*`                                  | any other one: it stands for all             |
 */
export const matching = <Known extends SecretIdentity>(all: readonly Known[], repoUrl: string): Known[] => {
  const fitting = all.filter(({ repo }) => matchesRepository([repo === "*" ? "**" : repo], repoUrl));
  const ranked = fitting.toSorted(
    (one, other) => weightOf(one.repo) - weightOf(other.repo) || (one.repo < other.repo ? 1 : -1),
  );
  return [...new Map(ranked.map((secret) => [secret.name, secret])).values()];
};

const weightOf = (glob: string): number =>
  /[*?]/.test(glob) ? glob.replaceAll(/[*?]/g, "").length : Infinity;
