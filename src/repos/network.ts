import type { GitOptions } from "../lib/git.ts";
import type { GitContext } from "./git-context.ts";
import { takesToken } from "./url.ts";

type Access = Required<Pick<GitOptions, "config" | "variables" | "secrets">>;

/**
 * What git needs to talk to the server of this URL, and to no other: the one protocol, and for the git host's own host
 * name a credential helper that reads the token from the variable of this one git process. The token is in no argument,
 * file or URL.
 */
export const networkAccess = async (
  context: GitContext,
  url: string,
  signal: AbortSignal,
): Promise<Access> => {
  const protocol = { GIT_ALLOW_PROTOCOL: protocolOf(url) };
  const { gitHost } = context.settings;
  const token = takesToken(url, gitHost) ? await context.tokens.current(signal) : null;
  if (token === null) return { config: [], variables: protocol, secrets: [] };
  return {
    config: [[`credential.https://${gitHost}.helper`, helper]],
    variables: { ...protocol, SERVICE_GIT_TOKEN: token },
    secrets: [token],
  };
};

/**
 * The other end of a local path is a git of ours that reads that repository's configuration, and not what we set for the
 * near end. These options start it so that it runs nothing the repository names: no hooks, no filters of a working tree
 * that follows its branch, no fetch of its own for objects it says it lacks.
 */
export const farEnd = (url: string, program: "upload-pack" | "receive-pack"): string[] =>
  protocolOf(url) === "file"
    ? [
        `--${program}=GIT_ALLOW_PROTOCOL=none git ${farConfig.map((pair) => `-c ${pair}`).join(" ")} ${program}`,
      ]
    : [];

const farConfig = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  "core.alternateRefsCommand=true",
  "receive.autogc=false",
  "receive.denyCurrentBranch=refuse",
];

const helper = `!f() { test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "$SERVICE_GIT_TOKEN"; }; f`;

const protocolOf = (url: string): string => {
  if (url.startsWith("/")) return "file";
  return /^([a-z]+):\/\//.exec(url)?.[1] ?? "ssh";
};
