import type { CompanionTarget } from "../contract/companion.ts";
import { type Check, type Readiness, readinessText } from "../contract/instance.ts";
import type { Volume } from "../contract/worktree.ts";
import type { SandboxMode } from "../sandbox/sandbox.ts";
import type { JobStore } from "../store/job-store.ts";

/** How long an answer of the store is cached, ms: `/ready` is public, and each check of the store writes to the disk. */
const cacheMs = 1000;

type Dependencies = {
  store: Pick<JobStore, "check">;
  disks: { requireRoom: (least?: number) => Promise<void>; volumes: () => Promise<Volume[]> };
  /** Why agents have no access to the model; null: they have a credential. */
  credentialProblem: () => string | null;
  /** What agents are kept in. */
  sandbox: { mode: SandboxMode; warning: string | null };
  /** Which of the service's directories had another mode; null: none. */
  modesProblem: () => string | null;
  companions: () => Promise<{ target: CompanionTarget; ageSeconds: number | null }[]>;
  isDraining: () => boolean;
  closing: AbortSignal;
  /** Milliseconds of a monotonic clock. */
  clock?: () => number;
};

/** Reports whether new jobs are accepted, and if not, why. */
export const createReadiness = (deps: Dependencies): (() => Promise<Omit<Readiness, "transcripts">>) => {
  const { store, disks, isDraining, closing, clock = () => performance.now() } = deps;
  let last: { at: number; problem: Promise<string | null> } | null = null;

  const storeProblem = (): Promise<string | null> => {
    const at = clock();
    if (last === null || at - last.at >= cacheMs) last = { at, problem: problemOf(store.check()) };
    return last.problem;
  };

  return async () => {
    const shutdown = closing.aborted ? "The service is shutting down" : null;
    const draining = shutdown === null && isDraining() ? "The instance is asked to drain" : null;
    const [stored, room, free] = await Promise.all([
      storeProblem(),
      problemOf(disks.requireRoom(minRoom)),
      freeRoom(disks),
    ]);
    const parts = [
      check("store", stored, "Jobs can be recorded"),
      check("disk", room, free),
      check("sandbox", deps.sandbox.warning, sandboxText[deps.sandbox.mode], "warning"),
      check("modes", deps.modesProblem(), "The service's directories have the modes of its start", "warning"),
      check("model", deps.credentialProblem(), "A credential is set, or none is asked for"),
    ];
    const faults = parts.filter(({ status }) => status === "fault").map(({ message }) => message);
    const reasons = [shutdown ?? draining ?? [], ...faults].flat();
    const ready = reasons.length === 0;
    const message = readinessText({ ready, reasons });
    const jobs = check("jobs", ready ? null : message, message);
    const ages = (await deps.companions()).map(({ target, ageSeconds }) => ({
      target,
      age_seconds: ageSeconds,
    }));
    return { ready, reasons, checks: [jobs, ...parts], companions: ages };
  };
};

/** Also said by `svc doctor`. */
export const sandboxText: Record<SandboxMode, string> = {
  bwrap: "Each agent runs in namespaces of its own (bubblewrap)",
  landlock:
    "Each agent is kept to its files and the model by Landlock; names of files and processes are not hidden, and modes and times of the user's files can be changed",
  off: "Agents run without a sandbox, as SERVICE_AGENT_SANDBOX=off says",
};

const check = (
  name: string,
  problem: string | null,
  good: string,
  otherwise: Check["status"] = "fault",
): Check => ({ name, status: problem === null ? "ok" : otherwise, message: problem ?? good });

/** Of the disk with the least. */
export const freeRoom = async ({ volumes }: { volumes: () => Promise<Volume[]> }): Promise<string> => {
  const [least] = (await volumes())
    .flatMap(({ path, free_bytes: free }) => (free === null ? [] : [{ path, free }]))
    .toSorted((one, other) => one.free - other.free);
  return least === undefined
    ? "The free room is not known"
    : `${(least.free / 2 ** 30).toFixed(1)} GiB free at ${least.path}`;
};

/** Bytes. With less no job can run, whatever the settings say. */
export const minRoom = 1024 * 1024;

const problemOf = (check: Promise<void>): Promise<string | null> =>
  check.then(
    () => null,
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
