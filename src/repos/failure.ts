import { GitError } from "../lib/git.ts";
import { nearest } from "../lib/nearest.ts";
import { RepoError } from "./repos.ts";

type Doing = {
  reason: RepoError["reason"];
  /** What was tried, to follow "Could not": `fetch https://…`. */
  what: string;
  signal: AbortSignal;
};

/**
 * Turns whatever a step threw into the RepoError that says what is wrong and what to do. An abort stays the signal's
 * reason.
 */
export const asRepoError = (error: unknown, { reason, what, signal }: Doing): unknown => {
  if (error instanceof RepoError) return error;
  if (signal.aborted) return signal.reason;
  const text =
    error instanceof GitError ? error.said : error instanceof Error ? error.message : String(error);
  const credential = error instanceof GitError ? error.credential : null;
  const known =
    (credential === null ? undefined : ofCredential(credential).find(({ sign }) => sign.test(text))) ??
    knownFailures.find(({ sign }) => sign.test(text));
  const detail = error instanceof GitError && error.ended !== "exited" ? error.message : relevantLines(text);
  const message = `Could not ${what}: ${known === undefined ? detail : explained(known, { what, detail })}`;
  const retryable = known?.retryable ?? (error instanceof GitError && error.ended === "timed_out");
  return new RepoError(reason, message, { cause: error, retryable });
};

/** What it means, and in a line of its own what to do. */
const explained = (known: Known, { what, detail }: { what: string; detail: string }): string => {
  const isPath = / (file:\/)?\/\S/.test(what);
  const { meaning, advice: usual } = (isPath ? known.ofPath : undefined) ?? known;
  const [, typed = ""] = /Could not resolve host(?:name)?:? ([\w.-]+)/i.exec(detail) ?? [];
  const host = nearest(typed, ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org"]);
  const advice = host === undefined || host === typed ? usual : `Did you mean ${host}? ${usual}`;
  return `${meaning} (${detail})${advice === null ? "" : `\nWhat to do: ${advice}`}`;
};

type Meant = { meaning: string; advice: string | null };

/** `ofPath`: of a repository on this disk. */
type Known = Meant & { sign: RegExp; ofPath?: Meant; retryable: boolean };

export const staticToken = "GIT_HOST_TOKEN";

/** Of a server that got a credential. */
const ofCredential = (credential: string): Known[] => [
  {
    sign: /Authentication failed|could not read (Username|Password)|returned error: 401/i,
    meaning: `the server refused ${credential}.`,
    advice:
      credential === staticToken
        ? `Renew ${credential}, and restart the service.`
        : "Check GIT_HOST_APP_ID, its key and where the app is installed.",
    retryable: false,
  },
  {
    sign: /returned error: 403/i,
    meaning: `${credential} lacks the right to do this.`,
    advice: `Give ${credential} the rights contents: write and pull requests: write on this repository.`,
    retryable: false,
  },
];

/** The first match counts: special signs stand before general ones. */
const knownFailures: Known[] = [
  {
    sign: /\[rejected\].*\((non-fast-forward|fetch first|stale info)/,
    meaning: "the branch exists there with other commits.",
    advice: "Delete or rename it there, or push the branch by hand.",
    retryable: false,
  },
  {
    sign: /'refs\/heads\/[^']+' exists; cannot create|directory\/file conflict/,
    meaning: "a branch there has the name of a directory of this one's.",
    advice: "Rename that branch.",
    retryable: false,
  },
  {
    sign: /\[remote rejected\]/,
    meaning: "the server does not accept it.",
    advice: null,
    retryable: false,
  },
  {
    sign: /No space left on device|ENOSPC|Disk quota exceeded|EDQUOT/i,
    meaning: "the disk is full.",
    advice: "Free some space, or point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT at a larger disk.",
    retryable: true,
  },
  {
    sign: /Read-only file system|EROFS/i,
    meaning: "the file system is read-only.",
    advice: "Point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT at one that the service may write to.",
    retryable: false,
  },
  {
    sign: /EACCES|EPERM|ENOTDIR|insufficient permission|could not create (work tree|leading directories)/i,
    meaning: "the service may not write there.",
    advice: "Check the owner and mode of SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT.",
    retryable: false,
  },
  {
    // git names the file, but not the reason.
    sign: /unable to write file \S/i,
    meaning: "a file could not be written to its end, most likely because the disk is full.",
    advice: "Free some space, or point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT at a larger disk.",
    retryable: true,
  },
  {
    sign: /dubious ownership/i,
    meaning: "the repository on disk belongs to another user.",
    advice: "Make the service's user its owner, or use an https or ssh URL.",
    retryable: false,
  },
  {
    sign: /Host key verification failed/i,
    meaning: "the server's ssh host key is not known.",
    advice: "Add it to the known_hosts file of the service's user.",
    retryable: false,
  },
  {
    sign: /Authentication failed|could not read (Username|Password)|terminal prompts disabled|Permission denied \(|returned error: 40[13]|invalid credentials/i,
    meaning: "the server asks for credentials that the service does not have.",
    advice: "Set GIT_HOST and GIT_HOST_TOKEN (https) or give the service's user an ssh key.",
    retryable: false,
  },
  {
    sign: /Could not resolve host|Failed to connect|Connection (refused|reset|timed out)|Network is unreachable|No route to host|Operation timed out|gnutls_handshake|SSL (connection|certificate|peer)|returned error: 5\d\d|early EOF|unexpected disconnect|the remote end hung up/i,
    meaning: "the server cannot be reached or broke off.",
    advice: "Check the URL and the network, and try again.",
    retryable: true,
  },
  {
    sign: /repository '.*' not found|Repository not found|does not appear to be a git repository|no such (file|identity)|not valid: is this a git repository/i,
    meaning: "there is no git repository at this URL, or the service may not see it.",
    advice: "Check the spelling and the token's rights.",
    ofPath: {
      meaning: "there is no git repository at this path of the service's machine.",
      advice: "Check the path, and that the service's user may read it.",
    },
    retryable: false,
  },
];

/** The lines with the reason: messages of the server, errors, refusals; else the last lines. */
const relevantLines = (text: string): string => {
  const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== "");
  const reasons = lines.filter((line) => /^(remote:|error:|fatal:|\s*!|ssh:)|rejected/.test(line));
  return (reasons.length > 0 ? reasons : lines).slice(-6).join("; ").slice(0, 1000);
};
