import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { outcomeOf } from "../agents/agent.ts";
import { agentEnvironment, createClaudeAgent } from "../agents/claude/claude.ts";
import { modelCredential, modelProblem } from "../config/model-credential.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import type { Check } from "../contract/instance.ts";
import { connectKv } from "../kv/connect.ts";
import { runCommand } from "../lib/command.ts";
import { locksWork } from "../lib/file-lock.ts";
import { git } from "../lib/git.ts";
import { createLog } from "../lib/log.ts";
import { findExecutable } from "../lib/process/executable.ts";
import { createRedactor } from "../lib/redact.ts";
import { askGitHost, type HostAnswer } from "../repos/host-check.ts";
import { selfTest } from "../repos/self-test.ts";
import { inFiles, inKv, requireFormat } from "../store/format.ts";
import { createDisks } from "../worktrees/disk.ts";
import { freeRoom, minRoom } from "./readiness.ts";

type Patient = {
  settings: Settings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Asks neither model nor git host, and writes nothing. */
  offline: boolean;
};

/** `askModel`: sends the model one message. */
type Examination = Patient & { askModel: boolean };

/** Not as it should be, but jobs can run. Any other error is a fault. */
class Doubt extends Error {
  override name = "Doubt";
}

const redactorOf = ({ settings, env }: Patient) => createRedactor(secretValues(settings, env));

/** Checks what jobs need on this machine, as the service would use it. No message has a secret in it. */
export const examine = async ({ askModel, ...patient }: Examination): Promise<Check[]> => {
  const directory = askModel ? await mkdtemp(join(tmpdir(), "service-doctor-")) : null;
  const redact = redactorOf(patient);
  const check = (name: string, look: Promise<string>): Promise<Check> =>
    look.then(
      (message) => ({ name, status: "ok", message: redact(message) }),
      (error: unknown) => ({
        name,
        status: error instanceof Doubt ? "warning" : "fault",
        message: redact(error instanceof Error ? error.message : String(error)),
      }),
    );
  const host = patient.offline ? Promise.resolve(null) : askGitHost(patient);
  try {
    const found = await Promise.all([
      check("git", gitVersion(patient)),
      check("agent", agentVersion(patient)),
      check("model", modelAnswer(patient, directory)),
      check("git host", rights(patient, host)),
      check("disk", room(patient)),
      check("store", store(patient)),
      check("clock", clock(host)),
    ]);
    patient.signal.throwIfAborted();
    return found;
  } finally {
    if (directory !== null) await rm(directory, { recursive: true, force: true });
  }
};

const gitVersion = async (patient: Patient): Promise<string> => {
  const problems = await selfTest({ ...patient, readOnly: patient.offline });
  if (problems.length > 0) throw new Error(problems.join(" "));
  return (await git(["version"], { ...patient, timeoutSeconds: 10 })).stdout.trim();
};

/** A home in which nothing can be made, not even by root. */
const nowhere = "/dev/null";

/** Home and configuration of the agent are this directory: nothing of the user's own is read. */
const agentOf = ({ settings }: Patient, directory: string) => ({
  settings: { ...settings, agentHome: directory, otelEnabled: false },
  request: {
    id: randomUUID(),
    attempt: 1,
    launch: {
      configDir: directory,
      args: ["--model", "sonnet", "--max-turns", "1", "--tools="],
      model: "sonnet",
      settingsFile: null,
      mcpConfigFile: null,
      worktreeName: null,
      bypassPermissions: false,
      profile: "doctor",
      repoKey: null,
      timeoutSeconds: 60,
      maxBudgetUsd: null,
    },
  },
});

const agentVersion = async (patient: Patient): Promise<string> => {
  const { env, signal } = patient;
  const { settings, request: start } = agentOf(patient, nowhere);
  const wayOut = "install the agent CLI, or point SERVICE_AGENT_CLI_BINARY at it";
  const found = await findExecutable(settings.agentCliBinary, env["PATH"] ?? "");
  if (!found.ok) throw new Error(`${found.message} Every job will fail: ${wayOut}`);
  const { variables } = agentEnvironment({ settings, env, start, receiver: null, root: false });
  const place = { cwd: "/", env: variables, timeoutSeconds: 30, signal };
  const said = await runCommand({ command: found.path, args: ["--version"], ...place });
  if (said.exitCode === 0) return `${said.stdout.trim().slice(0, 100)} (${found.path})`;
  throw new Error(`${found.path} --version fails: ${said.stderr.trim().slice(0, 300)}; ${wayOut}`);
};

/** `directory` null: nothing is sent. */
const modelAnswer = async (patient: Patient, directory: string | null): Promise<string> => {
  const credential = modelCredential(patient.settings);
  const problem = modelProblem(patient.settings);
  if (problem !== null) throw new Error(problem);
  if (credential === null)
    throw new Doubt("No model credential is known here; svc run shows whether agents need one");
  if (directory === null)
    throw new Doubt(`${credential} is set, but was not tried; svc doctor --yes tries it`);
  const { settings: own, request } = agentOf(patient, directory);
  // Its login may be there. The rest of what the CLI reads is in the configuration directory.
  const settings = { ...own, agentHome: patient.settings.agentHome };
  const session = { id: request.id, resumeFrom: null };
  const agent = createClaudeAgent({ settings, env: patient.env, redact: redactorOf(patient) });
  const started = await agent.start({ ...request, cwd: directory, session });
  const outcome = !started.ok
    ? started.outcome
    : await outcomeOf(
        started.process.turn({
          content: [{ type: "text", text: "Answer with the word ok." }],
          appendSystemPrompt: null,
          effort: null,
          timeoutSeconds: request.launch.timeoutSeconds,
          signal: patient.signal,
          isLast: true,
        }),
      );
  if (!outcome.ok) throw new Error(`${credential}: ${outcome.error ?? "the agent was ended"}`);
  return `${outcome.model ?? "The model"} answered (${credential}, $${(outcome.costUsd ?? 0).toFixed(4)})`;
};

const rights = async ({ settings, env }: Patient, asked: Promise<HostAnswer | null>): Promise<string> => {
  const { gitHost, gitHostToken, gitHostAppId } = settings;
  const gh = await findExecutable("gh", env["PATH"] ?? "");
  const isSet = gitHostToken !== null || gitHostAppId !== null;
  if (isSet && !gh.ok) throw new Doubt(`${gh.message} Install gh: without it no pull request is opened`);
  const answer = await asked.catch((error: unknown) => {
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(`${gitHost} could not be asked: ${said}. Check the credential, GIT_HOST and the network`);
  });
  if (answer !== null) return answerText(gitHost, answer);
  throw new Doubt(
    isSet
      ? `A credential for ${gitHost} is set, but was not tried`
      : `No token for ${gitHost}: only public repositories can be cloned, and nothing is pushed. Set GIT_HOST_TOKEN`,
  );
};

const answerText = (gitHost: string, { owner, scopes }: HostAnswer): string => {
  const who = `${gitHost}, as ${owner}`;
  if (scopes === null) return `${who}; each repository needs contents and pull requests: write`;
  if (!scopes.includes("repo"))
    throw new Doubt(`${who}: the token lacks the scope repo, so private repositories and pushes fail`);
  const lack = "; without workflow, files under .github/workflows cannot be pushed";
  return `${who}, with ${scopes.join(", ")}${scopes.includes("workflow") ? "" : lack}`;
};

const room = async ({ settings }: Patient): Promise<string> => {
  const disks = createDisks(settings, () => new Date());
  await disks.requireRoom(minRoom);
  return await freeRoom(disks);
};

const store = async ({ settings, signal, offline }: Patient): Promise<string> => {
  const { kvUrl: url, kvOptionsFile: optionsFile, kvKeyPrefix: prefix, jobsDir } = settings;
  if (url !== null) {
    const kv = await connectKv({
      url,
      optionsFile,
      prefix,
      log: createLog("silent", String),
      signal,
      patience: 2000,
    });
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

const clock = async (asked: Promise<HostAnswer | null>): Promise<string> => {
  const date = (await asked.catch(() => null))?.date ?? null;
  if (date === null) return `${new Date().toISOString()}, compared with no other`;
  const late = Math.round((Date.now() - date.getTime()) / 1000);
  // From about a minute on, hosts refuse what an app signs.
  if (Math.abs(late) <= 60) return "As the git host's";
  throw new Doubt(`${Math.abs(late)} s ${late > 0 ? "ahead of" : "behind"} the git host: set the time`);
};
