import { z } from "zod";
import { answerOf, runGh } from "./git-host.ts";
import { callHost } from "./host-call.ts";
import { createTokens, type TokenSettings } from "./tokens.ts";

type Request = {
  settings: TokenSettings & { gitTimeout: number };
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
};

export type HostAnswer = {
  /** Who the token belongs to, in words. */
  owner: string;
  /** Of a classic token; null: its rights are per repository, and the host does not name them. */
  scopes: string[] | null;
  /** The host's clock. */
  date: Date | null;
};

/** Asks the git host by `gh` whom its token belongs to, and what it may do. Null: no token. @throws Error without the token */
export const askGitHost = async ({ settings, env, signal }: Request): Promise<HostAnswer | null> => {
  const token = await createTokens(settings, () => undefined).get(null, signal);
  if (token === null) return null;
  const isApp = settings.gitHostAppId !== null && token !== settings.gitHostToken;
  const path = isApp ? "installation/repositories?per_page=1" : "user";
  const ask = () => runGh({ settings, env, signal }, ["api", "--include", path], { token });
  const { headers, body } = answerOf(await callHost(signal, ask));
  const { login } = Answer.parse(JSON.parse(body));
  const { date } = headers;
  return {
    owner: login ?? `the app ${settings.gitHostAppId}`,
    scopes: headers["x-oauth-scopes"]?.split(/, */).filter(Boolean) ?? null,
    date: date === undefined ? null : new Date(date),
  };
};

const Answer = z.object({ login: z.string().optional() });
