import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { shortKeys } from "../config/key-strength.ts";
import { secretValues } from "../config/secrets.ts";
import type { Check } from "../contract/instance.ts";
import { locksWork } from "../lib/file-lock.ts";
import { git } from "../lib/git.ts";
import { createLog } from "../lib/log.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import { askGitHost, type HostAnswer } from "../repos/host-check.ts";
import { selfTest } from "../repos/self-test.ts";
import { keyProblem } from "../secrets/seal.ts";
import { inFiles, inKv, requireFormat } from "../store/format.ts";
import { createDisks } from "../worktrees/disk.ts";
import { createSandbox } from "../sandbox/sandbox.ts";
import { checkAgent } from "./doctor/agent.ts";
import { Warning, type Diagnosis } from "./doctor/diagnosis.ts";
import { askModel, checkModel } from "./doctor/model.ts";
import { openToAccounts } from "./open-access.ts";
import { freeRoom, minRoom, sandboxText } from "./readiness.ts";

/** Checks what jobs need on this machine, as the service would use it. No message has a secret in it. */
export const diagnose = async (asked: Omit<Diagnosis, "redact">): Promise<Check[]> => {
  const redact = createRedactor(secretValues(asked.settings, asked.env));
  const request = { ...asked, redact };
  const host = request.offline ? Promise.resolve(null) : askGitHost(request);
  const checks = {
    git: gitVersion(request),
    agent: checkAgent(request),
    model: checkModel(request),
    ...(request.askModel !== false && { answer: askModel(request) }),
    sandbox: sandbox(request),
    "git host": rights(request, host),
    disk: room(request),
    store: store(request),
    secrets: secretsKey(request),
    access: access(request),
    clock: clock(host),
  };
  const found = Object.entries(checks).map(([name, look]) =>
    look.then(
      (message): Check => ({ name, status: "ok", message: redact(message) }),
      (error: unknown): Check => ({
        name,
        status: error instanceof Warning ? "warning" : "fault",
        message: redact(error instanceof Error ? error.message : String(error)),
      }),
    ),
  );
  return await Promise.all(found).finally(() => request.signal.throwIfAborted());
};

const gitVersion = async (request: Diagnosis): Promise<string> => {
  const problems = await selfTest({ ...request, readOnly: request.offline });
  if (problems.length > 0) throw new Error(problems.join(" "));
  return (await git(["version"], { ...request, timeoutSeconds: 10 })).stdout.trim();
};

/** Runs the whole list of arguments that a run would get. */
const sandbox = async ({ settings }: Diagnosis): Promise<string> => {
  const { agentSandbox: wanted, setupUnsandboxed } = settings;
  const { sandbox: taken, warning, problems } = await createSandbox(wanted);
  if (taken.mode === "off") {
    const why = wanted === "off" ? sandboxText.off : `Agents have no sandbox: ${problems.join("; ")}`;
    throw new Warning(setupUnsandboxed ? why : `${why}; .svc/setup.yml of repositories is left out`);
  }
  const doubts = warning ?? problems.join("; ");
  if (doubts === "") return sandboxText[taken.mode];
  throw new Warning(`${sandboxText[taken.mode]}. ${doubts}`);
};

const rights = async ({ settings, env }: Diagnosis, asked: Promise<HostAnswer | null>): Promise<string> => {
  const { gitHost, gitHostToken, gitHostAppId } = settings;
  const gh = await findExecutable("gh", env["PATH"] ?? "");
  const isSet = gitHostToken !== null || gitHostAppId !== null;
  if (isSet && !gh.ok) throw new Warning(`${gh.message} Install gh: without it no pull request is opened`);
  const answer = await asked.catch((error: unknown) => {
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(`${gitHost} could not be asked: ${said}. Check the credential, GIT_HOST and the network`);
  });
  if (answer !== null) return answerText(gitHost, answer);
  throw new Warning(
    isSet
      ? `A credential for ${gitHost} is set, but was not tried`
      : `No token for ${gitHost}: only public repositories can be cloned, and nothing is pushed. Set GIT_HOST_TOKEN`,
  );
};

const answerText = (gitHost: string, { owner, scopes }: HostAnswer): string => {
  const who = `${gitHost}, as ${owner}`;
  if (scopes === null) return `${who}; each repository needs contents and pull requests: write`;
  if (!scopes.includes("repo"))
    throw new Warning(`${who}: the token lacks the scope repo, so private repositories and pushes fail`);
  const lack = "; without workflow, files under .github/workflows cannot be pushed";
  return `${who}, with ${scopes.join(", ")}${scopes.includes("workflow") ? "" : lack}`;
};

const room = async ({ settings }: Diagnosis): Promise<string> => {
  const disks = createDisks(settings, () => new Date());
  await disks.requireRoom(minRoom);
  return await freeRoom(disks);
};

const store = async ({ settings, signal, offline }: Diagnosis): Promise<string> => {
  const { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, jobsDir } = settings;
  if (url !== null) {
    const { connectKv } = await import("../kv/connect.ts");
    const log = createLog("silent", String);
    const kv = await connectKv({ url, optionsFile, prefix, log, signal, patience: 2000 });
    try {
      await requireFormat(inKv(kv), { mark: false });
    } finally {
      await kv.close();
    }
    return "The key-value store of KV_URL answers";
  }
  if (!offline) await mkdir(jobsDir, { recursive: true, mode: 0o700 });
  await requireFormat(inFiles(jobsDir), { mark: false });
  if (offline || (await locksWork(join(jobsDir, ".lock-test")))) return `Files in ${jobsDir}`;
  throw new Error(`The file system of SERVICE_JOBS_DIR (${jobsDir}) does not support locks: use another one`);
};

/** Of files: who shares a key-value store without a key has no secrets in it. */
const secretsKey = async ({ settings }: Diagnosis): Promise<string> => {
  const stored = await readdir(join(settings.jobsDir, "secrets")).catch(() => []);
  const problem = await keyProblem(settings, stored.length > 0);
  if (problem === null) return "Encrypted with a key that only the service reads";
  if (settings.kvUrl !== null) return problem;
  throw new Warning(problem);
};

/** Who may use the service, besides whoever has a key. */
const access = async ({ settings }: Diagnosis): Promise<string> => {
  const { apiKeys } = settings;
  const problem = (await openToAccounts(settings)) ?? shortKeys("SERVICE_API_KEYS", apiKeys).join("; ");
  if (problem !== "") throw new Warning(problem);
  return apiKeys.length > 0
    ? `By ${apiKeys.length} API keys`
    : "Without a key, for what runs on this machine";
};

const clock = async (asked: Promise<HostAnswer | null>): Promise<string> => {
  const date = (await asked.catch(() => null))?.date ?? null;
  if (date === null) return `${new Date().toISOString()}, compared with no other`;
  const late = Math.round((Date.now() - date.getTime()) / 1000);
  // From about a minute on, hosts refuse what an app signs.
  if (Math.abs(late) <= 60) return "As the git host's";
  throw new Warning(`${Math.abs(late)} s ${late > 0 ? "ahead of" : "behind"} the git host: set the time`);
};
