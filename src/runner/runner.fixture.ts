import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createClaudeAgent } from "../agents/claude/claude.ts";
import type { ClaudeSettings } from "../agents/claude/settings.ts";
import { RunTaskInput } from "../contract/job.ts";
import { type Interruption, type Run, createRun } from "../jobs/run.ts";
import { newRecord } from "../jobs/new-record.ts";
import { createLog } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { createNotifier } from "../lib/notifier.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { makeRepos, makeRemote } from "../repos/repos.fixture.ts";
import { openBaseChecks, openFilesEventLog, openFilesJobStore } from "../../test/open-stores.ts";
import type { JobRecord, StoredMessage } from "../store/job-record.ts";
import { fakeSettings } from "../../test/fake-agent/run.ts";
import { createKeptFiles } from "../store/kept-files.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createRunCommand } from "../agents/command.ts";
import { createEnvironments } from "../place/environments.ts";
import { createSetup } from "../place/setup.ts";
import { createWarm } from "../place/warm.ts";
import type { JobSecrets } from "../secrets/secrets.ts";
import { createChecks } from "./checks.ts";
import type { LimitSettings } from "./limit.ts";
import { createRunner } from "./runner.ts";
import { noBoundary } from "../profiles/profiles.fixture.ts";

/** Shortest waits. */
const limitSettings = {
  limitJitter: 1,
  limitPauses: [1],
  limitWaits: 5,
  limitTtl: 86_400,
  overloadRetries: 0,
  overloadPauses: [0],
};

/** The runner over real files, repositories and profiles with the fake agent, and a job that has been claimed. */
export const claimJob = async (
  task: string,
  patch: Partial<JobRecord> = {},
  settings: Partial<
    ClaudeSettings & LimitSettings & { portRange: string; isTaken: (sessionId: string) => Promise<boolean> }
  > = {},
  mustPark = false,
  setup: Partial<Parameters<typeof createSetup>[0]> = {},
  secrets: Partial<JobSecrets> = {},
) => {
  const directory = await temporaryDirectory();
  const log = createLog("silent", (text) => text);
  const redact = createRedactor([]);
  for (const { value } of Object.values(secrets).flat()) redact.add(value, new Date(8.64e15));
  const now = (): Date => new Date();
  const store = await openFilesJobStore(join(directory, "jobs"), log);
  const events = openFilesEventLog(join(directory, "events"), { jobs: store, now, log });
  const { repos } = await makeRepos();
  const remote = await makeRemote();
  const env = { PATH: process.env["PATH"] };
  const baseChecks = await openBaseChecks(join(directory, "checks"), log);
  const runCommand = createRunCommand({ settings: { agentEnv: [], agentHome: directory }, env, redact });
  const root = join(directory, "environments");
  const environments = createEnvironments({
    root,
    maxBytes: 1e9,
    requireRoom: async () => undefined,
    log,
    signal: new AbortController().signal,
  });
  const runner = createRunner({
    checks: createChecks({ repos, runCommand, baseChecks }),
    setup: createSetup({
      repos,
      runCommand,
      warm: createWarm({ repos, environments, ownHome: null }),
      requireRoom: async () => undefined,
      isSandboxed: true,
      settings: { setupHosts: ["npm"], setupUnsandboxed: false },
      ...setup,
    }),
    secrets: { forJob: async () => ({ setup: [], agent: [], checks: [], ...secrets }) },
    isOwnBranch: async (url, branch) =>
      (await store.hasBranch(url, branch)) || (await repos.hasWorktreeOn(url, branch)),
    profiles: createProfiles({
      settings: { sharedFsRoot: null, defaultProfile: "code", hooksProfile: "coding", agentCliTimeout: 3600 },
      companions: async () => null,
      boundary: noBoundary,
      home: directory,
      now: Date.now,
      log,
    }),
    repos,
    keptFiles: createKeptFiles(join(directory, "out")),
    taskFiles: { put: async () => undefined, get: async () => null, remove: async () => undefined },
    agent: createClaudeAgent({
      settings: { ...fakeSettings(directory), ...settings },
      env,
      redact,
    }),
    newId: randomUUID,
    isTaken: settings.isTaken ?? (async (id) => (await store.findBySession(id)) !== null),
    redact,
    log,
    instance: "test",
    orphanGrace: 1,
    salvageTimeout: 60,
    sandboxWarning: null,
    credential: { digest: "one", hasOtherKey: false, usualAtLimit: "wait" },
    settings: { questionTtl: 60, portRange: "20000-29999", ...limitSettings, ...settings },
    now,
  });
  const queued = newRecord({
    id: randomUUID(),
    now: now(),
    input: RunTaskInput.parse({ task }),
    repoUrl: repos.parseUrl(remote.url),
    profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
    ttlSeconds: 3600,
    idempotency: null,
    principal: "open",
    worktree: null,
    boundTo: null,
  });
  const record: JobRecord = {
    ...queued,
    status: "running",
    attempt: 1,
    started_at: now().toISOString(),
    unsettled: true,
    ...patch,
  };
  await store.create(record);
  let stop = new AbortController();
  const jobEnds = createNotifier();
  const newRun = () =>
    createRun(
      {
        store,
        events,
        jobEnds,
        mustPark: async () => mustPark,
        settings: { questionLive: 60 },
        now,
        redact,
        log,
      },
      record,
      stop.signal,
    );
  return {
    store,
    /** In which profiles are. */
    home: directory,
    record,
    run: newRun(),
    remote,
    settleLost: runner.settleLost,
    /** Runs the job; `over` takes the place of what the run does. */
    execute: (over: Partial<Run> = {}, from = record) => runner.execute(from, { ...newRun(), ...over }),
    /** Adds a message, as a door does. */
    say: async (message: StoredMessage): Promise<void> => {
      const add = ({ messages }: JobRecord) => ({ messages: [...messages, message] });
      await store.update(record.id, { status: ["running"] }, add);
      jobEnds.notify(record.id);
    },
    interrupt: (reason: Interruption): void => {
      stop.abort(reason);
      stop = new AbortController();
    },
    stored: async (): Promise<JobRecord> => (await store.get(record.id)) ?? record,
    published: async () => {
      await events.finish(record.id);
      return await Array.fromAsync(events.read(record.id, 0, new AbortController().signal, true));
    },
  };
};
