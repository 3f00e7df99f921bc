import { ServiceError } from "../contract/errors.ts";
import { type Secret, type SecretIdentity, type SecretPhase, secretPhases } from "../contract/secret.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import { matchesRepository } from "../profiles/match.ts";
import type { SecretRecord, SecretStore } from "../store/secret-store.ts";
import { type KeySettings, openKey, placeholderOf, seal, unseal } from "./seal.ts";

type Dependencies = {
  store: SecretStore;
  settings: KeySettings;
  redact: Pick<Redactor, "add">;
  now: () => Date;
  log: Log;
  /** Ends waiting for the store. */
  signal: AbortSignal;
};

/** What a job gets in a phase. `placeholder`: what its agent has instead, into whose requests the sandbox's door puts the value. */
export type JobSecret = Pick<Secret, "name" | "hosts" | "header" | "created_at"> & {
  value: string;
  placeholder: string;
};

export type JobSecrets = Record<SecretPhase, JobSecret[]>;

/** Secrets of jobs: stored sealed, given by repository and phase, masked wherever text leaves the service. */
export const createSecrets = ({ store, settings, redact, now, log, signal }: Dependencies) => {
  // As long as the process lives: what a job was given stays in what it has written.
  const mask = (text: string): void => redact.add(text, new Date(8.64e15));

  const opened = async (records: readonly SecretRecord[], jobId: string): Promise<JobSecret[]> => {
    if (records.length === 0) return [];
    const key = await openKey(settings, { make: false });
    return records.map((record) => {
      const { name, hosts, header, created_at } = record;
      const [value, placeholder] = [unseal(key, record), placeholderOf(key, jobId, record)];
      mask(value);
      return { name, hosts, header, created_at, value, placeholder };
    });
  };

  /** The secrets of a job of the repository in the phase. @throws ServiceError `secrets_unavailable` */
  const forPhase = async (repoUrl: string, phase: SecretPhase, jobId: string): Promise<JobSecret[]> =>
    await opened(matching(await store.ofPhase(phase), repoUrl), jobId);

  return {
    list: async (): Promise<Secret[]> => (await store.all()).map(shown).toSorted(byIdentity),

    /** @throws ServiceError `secrets_unavailable` */
    set: async ({ value, ...known }: Omit<Secret, "created_at"> & { value: string }): Promise<Secret> => {
      const key = await openKey(settings, { make: true });
      const secret = { ...known, created_at: now().toISOString() };
      mask(value);
      await store.put({ ...secret, sealed: seal(key, secret, value) });
      return secret;
    },

    /** @throws ServiceError `secret_not_found` */
    remove: async (identity: SecretIdentity): Promise<Secret> => {
      const removed = await store.remove(identity);
      if (removed !== null) return shown(removed);
      const { name, repo, phase } = identity;
      throw new ServiceError(
        "secret_not_found",
        `There is no secret ${name} of ${repo} in phase ${phase}; svc secrets list shows all`,
      );
    },

    forPhase,
    forJob: async (repoUrl: string, jobId: string): Promise<JobSecrets> => {
      const all = secretPhases.map(async (phase) => [phase, await forPhase(repoUrl, phase, jobId)] as const);
      return Object.fromEntries(await Promise.all(all)) as JobSecrets;
    },

    namesForAgent: async (repoUrl: string): Promise<string[]> =>
      matching(await store.ofPhase("agent"), repoUrl).map(({ name }) => name),

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

const shown = ({ sealed: _sealed, ...secret }: SecretRecord): Secret => secret;

const byIdentity = (one: Secret, other: Secret): number => (wordOf(one) < wordOf(other) ? -1 : 1);
const wordOf = ({ name, repo, phase }: Secret): string => [name, repo, phase].join("\n");

export const variablesOf = (secrets: readonly JobSecret[]): Record<string, string> =>
  Object.fromEntries(secrets.map(({ name, value }) => [name, value]));

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
