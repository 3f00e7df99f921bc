import { join } from "node:path";
import {
  list,
  base64Pem,
  directoryNames,
  flag,
  identity,
  integer,
  optional,
  optionalPath,
  path,
  pem,
  seconds,
  text,
} from "../formats.ts";
import { variable } from "../variable.ts";

/** Repositories, worktrees, git and the git host. */
export const repositoryVariables = {
  reposRoot: variable("SERVICE_REPOS_ROOT", path, ({ home }) => join(home, "service-repos"), {
    meaning: "Root of the cached clones",
  }),
  worktreeRoot: variable("SERVICE_WORKTREE_ROOT", path, ({ home }) => join(home, ".service", "worktrees"), {
    meaning: "Root of the worktrees, on local disk",
  }),
  worktreeTtl: variable("SERVICE_WORKTREE_TTL", seconds, "86400", {
    meaning: "Seconds a job's worktree is kept after the job's end; 0: removed at once",
  }),
  preparedWorktreeTtl: variable("SERVICE_PREPARED_WORKTREE_TTL", integer(60, 31_536_000), "604800", {
    meaning: "Seconds a prepared worktree is kept after it was made or its last job ended",
  }),
  salvageTtl: variable("SERVICE_SALVAGE_TTL", integer(3600, 315_360_000), "7776000", {
    meaning:
      "Seconds that saved work (salvage refs, and branches of jobs that are not pushed) is kept after it was saved",
  }),
  worktreeSizeExclude: variable("SERVICE_WORKTREE_SIZE_EXCLUDE", directoryNames, "", {
    meaning:
      "Comma-separated names of directories (node_modules, target …) that are left out of a worktree's size",
  }),
  minFreeDiskBytes: variable("SERVICE_MIN_FREE_DISK_BYTES", integer(0, 1_125_899_906_842_624), "1073741824", {
    meaning:
      "Free bytes on the disks of jobs, clones and worktrees below which no job is accepted; 0: no floor",
  }),
  allowLocalRepos: variable("SERVICE_ALLOW_LOCAL_REPOS", flag.nullable(), null, {
    meaning:
      "Permit repositories of this machine: file:// URLs, absolute paths, http:// to loopback; unset: only when listening on loopback without SERVICE_API_KEYS",
  }),
  baseRef: variable(
    "SERVICE_BASE_REF",
    text.regex(/^(?!-)[^\s~^:?*[\\]{1,200}$/, "must be the name of a branch or tag, or HEAD"),
    "main",
    {
      meaning:
        "Base of jobs that name none, where the repository has it; else, and with HEAD, the remote's default branch",
    },
  ),
  maxRepoFiles: variable("SERVICE_MAX_REPO_FILES", integer(1, 1_000_000_000), "1000000", {
    meaning: "Files and directories that a checkout may have; a larger one fails before anything is written",
  }),
  maxRepoBytes: variable("SERVICE_MAX_REPO_BYTES", integer(1, 1_125_899_906_842_624), "21474836480", {
    meaning:
      "Bytes that the files of a checkout may have in all; a larger one fails before anything is written",
  }),
  repoLockTimeout: variable("SERVICE_REPO_LOCK_TIMEOUT", integer(1, 86_400), "600", {
    meaning: "Seconds to wait for a repository's lock before the job fails",
  }),
  gitTimeout: variable("SERVICE_GIT_TIMEOUT", integer(1, 86_400), "600", {
    meaning: "Seconds one git or gh command may take",
  }),
  gitAuthorName: variable("SERVICE_GIT_AUTHOR_NAME", identity, "svc", {
    meaning: "Author of commits, the agent's too unless it sets another",
  }),
  gitAuthorEmail: variable("SERVICE_GIT_AUTHOR_EMAIL", identity, "svc@localhost", {
    meaning: "E-mail of that author",
  }),
  gitSigningKey: variable("SERVICE_GIT_SIGNING_KEY", optionalPath, null, {
    meaning:
      "Private SSH key without a passphrase, with which the service signs its commits; not the agent's",
  }),
  gitHost: variable(
    "GIT_HOST",
    text.regex(/^[a-z0-9.-]+(:\d+)?$/, "must be a host name, lower-case, with an optional port"),
    "github.com",
    { meaning: "Host that the git host credentials belong to", yaml: "github.host", fallbacks: ["GH_HOST"] },
  ),
  gitHostToken: variable("GIT_HOST_TOKEN", optional, null, {
    meaning: "Token for clone, push and pull requests on that host",
    yaml: "github.token",
    secret: true,
  }),
  gitHostOwners: variable("GIT_HOST_OWNERS", list, "", {
    meaning:
      "Owners on that host, with commas, whose repositories the token reads as submodules of any repository",
    yaml: "github.owners",
  }),
  gitHostAppId: variable(
    "GIT_HOST_APP_ID",
    text.regex(/^[A-Za-z0-9._-]+$/, "must be the id of an app").nullable(),
    null,
    { meaning: "App id; an app's token is used before GIT_HOST_TOKEN", yaml: "github.app_id" },
  ),
  gitHostAppInstallationId: variable(
    "GIT_HOST_APP_INSTALLATION_ID",
    text.regex(/^\d+$/, "must be a number").nullable(),
    null,
    { meaning: "Installation of the app", yaml: "github.app_installation_id" },
  ),
  gitHostAppPrivateKeyPath: variable("GIT_HOST_APP_PRIVATE_KEY_PATH", optionalPath, null, {
    meaning: "PEM file of the app's key",
    yaml: "github.app_private_key_path",
  }),
  gitHostAppPrivateKey: variable("GIT_HOST_APP_PRIVATE_KEY", pem.nullable(), null, {
    meaning: "The app's key as PEM text",
    yaml: "github.app_private_key",
    secret: true,
  }),
  gitHostAppPrivateKeyBase64: variable("GIT_HOST_APP_PRIVATE_KEY_BASE64", base64Pem.nullable(), null, {
    meaning: "The app's key, PEM in base64",
    yaml: "github.app_private_key_base64",
    secret: true,
  }),
};
