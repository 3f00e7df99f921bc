import { readFile } from "node:fs/promises";
import { createAppAuth } from "@octokit/auth-app";
import { request } from "@octokit/request";
import type { Settings } from "../config/variables.ts";

/** Tokens for the git host. */
export type Tokens = {
  /** Call it for each use: an app's token is valid for an hour. Null: none is configured. */
  current: (signal: AbortSignal) => Promise<string | null>;
};

export type TokenSettings = Pick<
  Settings,
  | "gitHost"
  | "gitHostToken"
  | "gitHostAppId"
  | "gitHostAppInstallationId"
  | "gitHostAppPrivateKeyPath"
  | "gitHostAppPrivateKey"
  | "gitHostAppPrivateKeyBase64"
>;

/** Prefers an app's token to the static one, because it has fewer rights and a shorter life. */
export const createTokens = (settings: TokenSettings): Tokens => {
  let app: Promise<(signal: AbortSignal) => Promise<string>> | undefined;
  const { gitHostAppId: appId, gitHostAppInstallationId: installationId } = settings;
  if (appId === null || installationId === null || !hasKey(settings)) {
    return { current: async () => settings.gitHostToken };
  }
  const current = async (signal: AbortSignal): Promise<string> => {
    // After a failure the next use reads the key again: it may be mounted late.
    app ??= appTokens(settings, { appId, installationId });
    try {
      return await (
        await app
      )(signal);
    } catch (error) {
      app = undefined;
      signal.throwIfAborted();
      if (settings.gitHostToken !== null) return settings.gitHostToken;
      const why = error instanceof Error ? error.message : String(error);
      throw new Error(`no token could be got for the app ${appId} on ${settings.gitHost}: ${why}`, {
        cause: error,
      });
    }
  };
  return { current };
};

/** Base of the host's REST API. */
const apiBase = (gitHost: string): string =>
  gitHost === "github.com" ? "https://api.github.com" : `https://${gitHost}/api/v3`;

const appTokens = async (
  settings: TokenSettings,
  { appId, installationId }: { appId: string; installationId: string },
): Promise<(signal: AbortSignal) => Promise<string>> => {
  const privateKey = await readKey(settings);
  const api = request.defaults({ baseUrl: apiBase(settings.gitHost) });
  const auth = createAppAuth({ appId, installationId, privateKey, request: api });
  return async (signal) => {
    const bound = api.defaults({
      request: { signal: AbortSignal.any([signal, AbortSignal.timeout(30_000)]) },
    });
    const { token } = await auth({ type: "installation", request: bound });
    return token;
  };
};

const hasKey = (settings: TokenSettings): boolean =>
  [
    settings.gitHostAppPrivateKey,
    settings.gitHostAppPrivateKeyBase64,
    settings.gitHostAppPrivateKeyPath,
  ].some((key) => key !== null);

const readKey = async (settings: TokenSettings): Promise<string> => {
  // In variables, a PEM text often has `\n` for its line breaks.
  if (settings.gitHostAppPrivateKey !== null) return settings.gitHostAppPrivateKey.replaceAll("\\n", "\n");
  if (settings.gitHostAppPrivateKeyBase64 !== null)
    return Buffer.from(settings.gitHostAppPrivateKeyBase64, "base64").toString();
  return readFile(settings.gitHostAppPrivateKeyPath ?? "", "utf8");
};
