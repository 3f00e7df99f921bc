import { randomUUID } from "node:crypto";
import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { outcomeOf, type AgentLaunch, type TurnOutcome } from "../../agents/agent.ts";
import { createClaudeAgent } from "../../agents/claude/claude.ts";
import { serveScriptedModel } from "../../agents/claude/scripted-model.ts";
import type { Settings } from "../../config/variables.ts";
import { noOptions } from "../../contract/run-options.ts";
import { createLog } from "../../lib/log.ts";
import { removeTree } from "../../lib/remove-tree.ts";
import { createProfiles } from "../../profiles/profiles.ts";
import { boundaryOf } from "../../profiles/sandbox-policy.ts";
import { createRepos } from "../../repos/create.ts";
import { borrowedBy, type Worktree } from "../../repos/repos.ts";
import { createSandbox, type SandboxMode } from "../../sandbox/sandbox.ts";
import type { Diagnosis } from "./diagnosis.ts";

type Trial = Pick<Diagnosis, "settings" | "env" | "signal" | "redact" | "askModel"> & {
  limitSeconds: number;
};

/**
 * Runs one turn of the agent CLI as that of a job of the bundled profile `code` without a repository, with a scripted
 * model unless `askModel` says otherwise. All that it writes is in a temporary directory, which is removed.
 * @throws Error with the CLI's own words
 */
export const tryTurn = async (
  trial: Trial,
): Promise<TurnOutcome & { mode: SandboxMode; seconds: number }> => {
  const began = performance.now();
  const { redact, askModel, limitSeconds } = trial;
  const late = AbortSignal.timeout(limitSeconds * 1000);
  const signal = AbortSignal.any([trial.signal, late]);
  await using stack = new AsyncDisposableStack();
  const home = await mkdtemp(join(tmpdir(), "svc-doctor-"));
  stack.defer(() => removeTree(home));
  const scripted = askModel === false ? stack.use(await serveScriptedModel(command)) : null;
  const settings = settingsFor(trial, home, scripted?.url);
  // No proxy leads to the scripted model.
  const direct = { NO_PROXY: "127.0.0.1", no_proxy: "127.0.0.1" };
  const env = { ...trial.env, TMPDIR: home, ...(scripted !== null && direct) };
  const id = randomUUID();
  const { sandbox } = await createSandbox(settings.agentSandbox);
  const placement = { repo: null, worktreeId: id, jobId: id, branch: "doctor", baseRef: "", signal };
  const worktree = await createRepos({ settings, env, confine: sandbox.confine }).addWorktree(placement);
  const started = await createClaudeAgent({ settings, env, redact, sandbox }).start({
    id,
    attempt: 1,
    cwd: worktree.path,
    borrows: borrowedBy(worktree),
    launch: await launchIn(home, worktree, { settings, askModel }),
    session: { id, resumeFrom: null },
    reports: true,
    hears: true,
    asks: { question: true, plan: false },
  });
  if (!started.ok) throw new Error(started.outcome.error ?? "it does not start");
  const text = `Run this command, and say what it prints: ${command}`;
  const turn = { content: [{ type: "text" as const, text }], appendSystemPrompt: null, effort: null };
  const outcome = await outcomeOf(
    started.process.turn({ ...turn, timeoutSeconds: limitSeconds, signal, isLast: true }),
  );
  if (!outcome.ok) {
    const how = late.aborted ? `has no result within ${limitSeconds} s` : "fails";
    // Without the advice for a job, which leads here.
    const words = (outcome.error ?? "").replace(/\nWhat to do:.*/, "").replaceAll(/\s+/g, " ");
    throw new Error(`one turn ${how}: ${words.slice(0, 1000)}`);
  }
  if ((await readFile(join(worktree.path, "doctor.txt"), "utf8").catch(() => "")) !== "works\n")
    throw new Error("one turn ends well, but its command wrote nothing in the worktree");
  return { ...outcome, mode: sandbox.mode, seconds: (performance.now() - began) / 1000 };
};

const command = "echo works | tee doctor.txt";

const launchIn = async (
  home: string,
  { worktreeId, path }: Worktree,
  { settings, askModel }: Pick<Trial, "settings" | "askModel">,
): Promise<AgentLaunch> => {
  const boundary = boundaryOf(settings, home);
  const log = createLog("silent", String);
  const profiles = createProfiles({ settings, companions: async () => null, boundary, home, log });
  const ids = { jobId: worktreeId, worktreeId, worktreePath: path, repoKey: null, filePath: "" };
  const options = { ...noOptions, ...(typeof askModel === "string" && { model: askModel }) };
  return await (await profiles.pin("code")).materialise({ ...ids, options });
};

/** `scripted`: URL of a model in place of the real one, to which no variable may prefer a provider. */
const settingsFor = ({ settings }: Trial, home: string, scripted: string | undefined): Settings => ({
  ...settings,
  reposRoot: join(home, "repos"),
  worktreeRoot: join(home, "worktrees"),
  sharedFsRoot: null,
  otelEnabled: false,
  agentCliKillGrace: 1,
  ...(scripted !== undefined && {
    agentOauthToken: null,
    modelApiKey: null,
    modelAuthToken: "scripted",
    modelBaseUrl: scripted,
    agentEnv: settings.agentEnv.filter((name) => !/^(CLAUDE_CODE_USE|ANTHROPIC)_/.test(name)),
  }),
});
