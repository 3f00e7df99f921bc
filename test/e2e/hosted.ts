import { afterFile } from "../cleanup.ts";
import { startFakeGitHost, type FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import type { Repository } from "../fake-git-host/state.ts";
import { git } from "../remote.ts";

/** A stand-in git host for a test file, closed after it. */
export const startHost = async (): Promise<FakeGitHost> => {
  const host = await startFakeGitHost();
  afterFile(() => host.close());
  return host;
};

/** What an operator sets to use that host; a token of `null` sets none. */
export const hostVariables = (host: FakeGitHost, token: string | null): Record<string, string> => ({
  ...host.environment,
  GIT_HOST: host.host,
  ...(token === null ? {} : { GIT_HOST_TOKEN: token }),
});

export const branchesOf = async ({ directory }: Repository): Promise<string[]> =>
  (await git(directory, "for-each-ref", "--format=%(refname:short)", "refs/heads"))
    .split("\n")
    .filter(Boolean);

export const tipOf = ({ directory }: Repository, branch: string | null): Promise<string> =>
  git(directory, "rev-parse", `refs/heads/${branch}`);

/** Credentials that reached the host, each once. */
export const credentialsSeen = (host: FakeGitHost): Set<string> =>
  new Set(host.requests.flatMap(({ authorization }) => (authorization ? [secretOf(authorization)] : [])));

const secretOf = (authorization: string): string => {
  const [scheme = "", value = ""] = authorization.split(" ");
  if (scheme.toLowerCase() !== "basic") return value;
  return Buffer.from(value, "base64").toString().split(":").slice(1).join(":");
};
