import { GitError } from "../lib/git.ts";
import { staticToken, type GitContext } from "./git-context.ts";
import { mayPass, overtaken, unreachable } from "./host-call.ts";
import { NotCaptured, RepoError } from "./repos.ts";

/**
 * Does a step of a job. Whatever it throws becomes the RepoError that says what is wrong and what to do; an abort stays
 * the signal's reason. `what` follows "Could not": `fetch https://…`.
 */
export const attempt = async <Value>(
  { signal }: Pick<GitContext, "signal">,
  reason: RepoError["reason"],
  what: string,
  action: () => Promise<Value>,
): Promise<Value> => {
  try {
    return await action();
  } catch (error) {
    if (error instanceof RepoError) throw error;
    if (signal.aborted) throw signal.reason;
    const { message, retryable } = explained(error, what);
    throw new RepoError(reason, `Could not ${what}: ${message}`, { cause: error, retryable });
  }
};

const explained = (error: unknown, what: string): { message: string; retryable: boolean } => {
  if (error instanceof GitError && error.ended !== "exited")
    return { message: error.message, retryable: error.ended === "timed_out" };
  const text =
    error instanceof GitError ? error.said : error instanceof Error ? error.message : String(error);
  const credential = error instanceof GitError ? error.credential : null;
  const isPath = / (file:\/)?\/\S/.test(what);
  const known = [...(credential === null ? [] : refusalsOf(credential)), ...knownFailures(isPath)].find(
    ([sign]) => sign.test(text),
  );
  if (known === undefined)
    return { message: relevantLines(text), retryable: mayPass(error) || silent.test(text) };
  const [, meaning, advice, retryable = false] = known;
  return { message: `${meaning} (${relevantLines(text)})\nWhat to do: ${advice}`, retryable };
};

const silent = /^no answer within/;

type Known = [sign: RegExp, meaning: string, advice: string, retryable?: boolean];

/** Of a server that got a credential. */
const refusalsOf = (credential: string): Known[] => [
  [
    /Authentication failed|could not read (Username|Password)|returned error: 401/i,
    `the server refused ${credential}.`,
    credential === staticToken
      ? `Renew ${credential}, and restart the service.`
      : "Check GIT_HOST_APP_ID, its key and where the app is installed.",
  ],
  [
    /returned error: 403/i,
    `${credential} lacks the right to do this.`,
    `Give ${credential} the rights contents: write and pull requests: write on this repository.`,
  ],
];

const largerDisk = "Free some space, or point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT at a larger disk.";

/** The first match counts: special signs stand before general ones. `isPath`: the repository is on this disk. */
const knownFailures = (isPath: boolean): Known[] => [
  [overtaken, "the branch there changes again and again.", "Wait until nobody else pushes to it.", true],
  [
    /does not support this repository's hash algorithm/,
    "the repository has SHA-256 ids, and only those with SHA-1 ids are supported.",
    "Give a copy of it that has them (git init --object-format=sha1).",
  ],
  [
    /denying non-fast-forward|cannot force-push/i,
    "the remote lets nobody rewrite the branch.",
    'Allow it there, or keep its commits: svc continue JOB "Merge what the remote has of the branch".',
  ],
  [
    /'refs\/heads\/[^']+' exists; cannot create|directory\/file conflict/,
    "a branch there has the name of a directory of this one's.",
    "Rename that branch.",
  ],
  [
    /No space left on device|Out of diskspace|ENOSPC|Disk quota exceeded|EDQUOT/i,
    "the disk is full.",
    largerDisk,
    true,
  ],
  [
    // git names the file, but not the reason.
    /unable to write file \S/i,
    "a file could not be written to its end, most likely because the disk is full.",
    largerDisk,
    true,
  ],
  [
    /Read-only file system|EROFS/i,
    "the file system is read-only.",
    "Point SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT at one that the service may write to.",
  ],
  [
    /EACCES|EPERM|ENOTDIR|insufficient permission|could not create (work tree|leading directories)/i,
    "the service may not write there.",
    "Check the owner and mode of SERVICE_REPOS_ROOT and SERVICE_WORKTREE_ROOT.",
  ],
  [
    /dubious ownership/i,
    "the repository on disk belongs to another user.",
    "Make the service's user its owner, or use an https or ssh URL.",
  ],
  [
    /Host key verification failed/i,
    "the server's ssh host key is not known.",
    "Add it to the known_hosts file of the service's user.",
  ],
  [
    /Authentication failed|could not read (Username|Password)|terminal prompts disabled|Permission denied \(|returned error: 40[13]|invalid credentials/i,
    "the server asks for credentials that the service does not have.",
    "Set GIT_HOST and GIT_HOST_TOKEN (https) or give the service's user an ssh key.",
  ],
  [unreachable, "the server cannot be reached or broke off.", "Check the URL and the network.", true],
  [
    /repository '.*' not found|Repository not found|does not appear to be a git repository|repository '.*' does not exist|no such (file|identity)|not valid: is this a git repository/i,
    `there is no git repository at this ${isPath ? "path of the service's machine" : "URL, or the service may not see it"}.`,
    isPath
      ? "Check the path, and that the service's user may read it."
      : "Check the spelling and the token's rights.",
  ],
];

/** The lines with the reason: messages of the server, errors, refusals; else the last lines. */
const relevantLines = (text: string): string => {
  const lines = text.split(/[\r\n]+/).filter((line) => line.trim() !== "");
  const reasons = lines.filter((line) => /^(remote:|error:|fatal:|\s*!|ssh:)|rejected/.test(line));
  return (reasons.length > 0 ? reasons : lines).slice(-6).join("; ").slice(0, 1000);
};

/** Why git cannot take what is in a worktree. @throws the error, when it says nothing about that */
export const reasonOf = (error: unknown): string => {
  if (error instanceof NotCaptured) return error.message;
  // Failures of the disk are temporary: they are no reason to give the work up.
  if (error instanceof GitError && !outOfRoom.test(error.said))
    return `git cannot take what is in it (${error.message.slice(0, 300)})`;
  throw error;
};

const outOfRoom = /No space left|quota exceeded|Read-only file system|Input\/output error/i;
