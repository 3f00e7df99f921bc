import { readFile } from "node:fs/promises";
import { createAppAuth } from "@octokit/auth-app";
import { request } from "@octokit/request";
import type { Settings } from "../config/variables.ts";
import type { HostedRepo } from "../contract/repository-url.ts";
import { orAborted } from "../lib/wait.ts";
import { callHost, HostError, limitOf, refusalOf } from "./host-call.ts";

export type Tokens = {
  /**
   * Call it for each use: an app's token is valid for an hour. It is for this repository alone; null: for all that the app
   * reaches, to create one. Null: none is configured, or the app is not installed on the repository.
   */
  get: (repo: HostedRepo | null, signal: AbortSignal) => Promise<string | null>;
  /** The host has refused this token. Whether `get` can give another one. */
  refused: (token: string) => boolean;
};

/** For a repository that must be readable by anybody. */
export const noTokens: Tokens = { get: async () => null, refused: () => false };

/** Called with a minted token before anything can use it, and with the end of its validity. */
export type OnToken = (token: string, expiresAt: Date) => void;

export type TokenSettings = Pick<
  Settings,
  | "gitHost"
  | "gitHostOwners"
  | "gitHostToken"
  | "gitHostAppId"
  | "gitHostAppInstallationId"
  | "gitHostAppPrivateKeyPath"
  | "gitHostAppPrivateKey"
  | "gitHostAppPrivateKeyBase64"
>;

/** Prefers an app's token to the static one, because it has fewer rights and a shorter life. */
export const createTokens = (settings: TokenSettings, onToken: OnToken): Tokens => {
  const { gitHostAppId: appId, gitHostAppInstallationId: installationId, gitHostToken } = settings;
  const { gitHostAppPrivateKey, gitHostAppPrivateKeyBase64, gitHostAppPrivateKeyPath } = settings;
  const key = gitHostAppPrivateKey ?? gitHostAppPrivateKeyBase64 ?? gitHostAppPrivateKeyPath;
  if (appId === null || installationId === null || key === null)
    return { get: async () => gitHostToken, refused: () => false };
  let app: Promise<Mint> | undefined;
  /** What the app was given last, or is being given, by repository. */
  const minted = new Map<string, { token: string; expiresAt: Date }>();
  const minting = new Map<string, Promise<string>>();
  /** When the host answers again, ms since the epoch. */
  let limitedUntil = 0;

  const mint = async (repo: HostedRepo | null, key: string): Promise<string> => {
    if (Date.now() < limitedUntil) {
      const seconds = String(Math.ceil((limitedUntil - Date.now()) / 1000));
      const until = new Date(limitedUntil).toISOString();
      throw new HostError(`the host takes no requests until ${until}`, 429, { "retry-after": seconds });
    }
    // After a failure the next use reads the key again: it may be mounted late.
    app ??= appOf(settings, { appId, installationId });
    const made = await (await app)(repo);
    onToken(made.token, made.expiresAt);
    for (const [other, { expiresAt }] of minted) if (expiresAt.getTime() < Date.now()) minted.delete(other);
    minted.set(key, made);
    return made.token;
  };

  const current = async (repo: HostedRepo | null): Promise<string> => {
    const key = repo?.name.toLowerCase() ?? "";
    const known = minted.get(key);
    if (known !== undefined && known.expiresAt.getTime() - Date.now() > renewalMs) return known.token;
    const running = minting.get(key) ?? mint(repo, key).finally(() => minting.delete(key));
    minting.set(key, running);
    return running;
  };

  return {
    get: async (repo, signal) => {
      try {
        return await callHost(signal, () => orAborted(current(repo), signal));
      } catch (error) {
        app = undefined;
        signal.throwIfAborted();
        limitedUntil = Math.max(limitedUntil, limitOf(error));
        if (gitHostToken !== null || isOutside(error)) return gitHostToken;
        const why = error instanceof Error ? error.message : String(error);
        const message = `no token could be got for the app ${appId} on ${settings.gitHost}: ${why}`;
        throw new Error(message, { cause: error });
      }
    },
    refused: (token) => {
      for (const [key, known] of minted) if (known.token === token) minted.delete(key);
      return token !== gitHostToken;
    },
  };
};

type Mint = (repo: HostedRepo | null) => Promise<{ token: string; expiresAt: Date }>;

/** A token that expires sooner is replaced: a push must not outlive it. */
const renewalMs = 300_000;

const apiBase = (gitHost: string): string =>
  gitHost === "github.com" ? "https://api.github.com" : `https://${gitHost}/api/v3`;

/** What a job needs: clone, push, pull request. */
const permissions = { contents: "write", pull_requests: "write", metadata: "read" };

const appOf = async (
  settings: TokenSettings,
  { appId, installationId }: { appId: string; installationId: string },
): Promise<Mint> => {
  const privateKey = await readKey(settings);
  const api = request.defaults({ baseUrl: apiBase(settings.gitHost) });
  const auth = createAppAuth({ appId, installationId, privateKey, request: api });
  return async (repo) => {
    const bound = api.defaults({ request: { signal: AbortSignal.timeout(30_000) } });
    const narrow = repo === null ? {} : { repositoryNames: [repo.name], permissions };
    const installation = { type: "installation", request: bound, refresh: true, ...narrow } as const;
    const { token, expiresAt } = await auth(installation);
    return { token, expiresAt: new Date(expiresAt) };
  };
};

/** The installation does not include the repository. */
const isOutside = (error: unknown): boolean => {
  const refusal = refusalOf(error);
  return (
    refusal?.status === 422 && /repository that does not exist or is not accessible/.test(refusal.message)
  );
};

const readKey = async (settings: TokenSettings): Promise<string> => {
  // In variables, a PEM text often has `\n` for its line breaks.
  if (settings.gitHostAppPrivateKey !== null) return settings.gitHostAppPrivateKey.replaceAll("\\n", "\n");
  if (settings.gitHostAppPrivateKeyBase64 !== null)
    return Buffer.from(settings.gitHostAppPrivateKeyBase64, "base64").toString();
  return readFile(settings.gitHostAppPrivateKeyPath ?? "", "utf8");
};
