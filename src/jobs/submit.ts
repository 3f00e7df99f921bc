import { ServiceError } from "../contract/errors.ts";
import { RunTaskInput } from "../contract/job.ts";
import type { TaskFile } from "../contract/run-options.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { TaskFiles } from "../store/task-files.ts";
import { checkAttached } from "./attached.ts";
import { newRecord, type NewRecord } from "./new-record.ts";
import type { Queue } from "./queue.ts";
import { createHash } from "node:crypto";

type Dependencies = {
  store: JobStore;
  queue: Queue;
  settings: { jobTtl: number; maxQueuedJobs: number };
  now: () => Date;
  newId: () => string;
  /** Checks what only other rooms know: repository, base ref, profile, MCP file. Throws a `ServiceError`. */
  check: (input: RunTaskInput, principal: string) => Promise<Accepted>;
  taskFiles: Pick<TaskFiles, "put" | "remove">;
  /** Instance on whose disk an earlier job's worktree is, if a follow-up must run there; null: any may. */
  instanceWith: (previous: JobRecord) => Promise<string | null>;
  /** Throws a `ServiceError` when no new work is accepted: draining, or too little disk space. */
  admit: () => Promise<void>;
  /** Accepts a job into a worktree: runs `accept` while the worktree cannot be removed. Throws a `ServiceError`. */
  joinWorktree: (id: string, accept: (worktree: NamedWorktree) => Promise<JobRecord>) => Promise<JobRecord>;
};

/** `baseRef`: empty: it is known when the repository has been fetched. `warning`: a sentence about the base. */
type Accepted = Pick<NewRecord, "repoUrl" | "profile" | "baseRef" | "warning" | "repositories">;

type NamedWorktree = { id: string; repoUrl: string; baseRef: string; branch: string; boundTo: string | null };

/** Accepts jobs: checks, stores, queues them. Knows neither agents nor git. */
export const createSubmit = (deps: Dependencies) => {
  const { store, queue, settings } = deps;
  let latest = 0;

  /** Returns a time of its own for each job, at most 1 s ahead: those of a worktree or session run in the order of `created_at`. */
  const submittedAt = (): Date => {
    const at = deps.now().getTime();
    latest = at <= latest && latest < at + 1000 ? latest + 1 : at;
    return new Date(latest);
  };

  const submit = async (input: RunTaskInput, context: RequestContext): Promise<JobRecord> => {
    await deps.admit();
    checkAttached(input.options.files);
    const { principal } = context;
    const idempotency = idempotencyOf(context.idempotencyKey, principal, input);
    const previous = await findPrevious(input);
    if (input.options.deliver_only === true && previous === null)
      throw new ServiceError(
        "invalid_request",
        "options.deliver_only: needs session_id, the session whose work is to be delivered",
      );
    const accept = (worktree: NamedWorktree | null): Promise<JobRecord> =>
      enqueue(completed(input, previous, worktree), { previous, worktree, idempotency, principal });
    return input.worktree_id === "" ? accept(null) : deps.joinWorktree(input.worktree_id, accept);
  };

  /** The newest job of the session to resume; null: none is asked for. Its record says where the transcript is. */
  const findPrevious = async ({ session_id }: RunTaskInput): Promise<JobRecord | null> => {
    if (session_id === "") return null;
    if (!uuid.test(session_id))
      throw new ServiceError("invalid_request", "session_id: must be the UUID of an agent session");
    const previous = await store.findBySession(session_id);
    if (previous !== null) return previous;
    throw new ServiceError(
      "invalid_request",
      `session_id: there is no agent session ${session_id}; take it from a job, or leave it out`,
    );
  };

  const enqueue = async (input: RunTaskInput, origin: Origin): Promise<JobRecord> => {
    const { idempotency, principal } = origin;
    const accepted = await deps.check(input, principal);
    const worktree = worktreeOf(origin, accepted.repoUrl);
    requireOwnBranch(input, worktree);
    const boundTo = await boundToOf(origin, worktree);
    const fresh = (): JobRecord =>
      newRecord({
        id: deps.newId(),
        now: submittedAt(),
        input,
        ...accepted,
        ttlSeconds: settings.jobTtl,
        idempotency,
        principal,
        worktree,
        sessionCwd: origin.previous?.session_cwd ?? null,
        boundTo,
        delivers: input.options.deliver_only === true ? origin.previous : null,
      });
    const { record, created } = await createWith(fresh, input.options.files);
    if (!created && record.idempotency?.body !== idempotency?.body)
      throw new ServiceError(
        "idempotency_conflict",
        `Idempotency-Key: was used for job ${record.id} with another request; use a new key`,
      );
    // Also for a repeated request: the first may have been cut off before the job was queued.
    if (record.status === "queued") await queue.add({ id: record.id, boundTo: record.bound_to });
    return record;
  };

  /** Stores a new job, with another id when another job has the same first eight digits. Its files are there before it is. */
  const createWith = async (fresh: () => JobRecord, files: TaskFile[]) => {
    for (;;) {
      const record = fresh();
      if (files.length > 0) await deps.taskFiles.put(record.id, files);
      const creation = await store
        .create(record, { maxQueued: settings.maxQueuedJobs })
        .catch(async (error) => {
          // The reply may be lost, and the job stored.
          if ((await store.get(record.id).catch(() => record)) === null)
            await deps.taskFiles.remove(record.id);
          throw error;
        });
      const isStored = !("refused" in creation) && creation.created;
      if (files.length > 0 && !isStored) await deps.taskFiles.remove(record.id);
      if (!("refused" in creation)) return creation;
      if (creation.refused === "full")
        throw new ServiceError(
          "queue_full",
          `${settings.maxQueuedJobs} jobs are waiting already; try again later`,
          { retryAfter: 30 },
        );
    }
  };

  /** A job runs where its worktree is. */
  const boundToOf = async (origin: Origin, worktree: NewRecord["worktree"]): Promise<string | null> => {
    if (origin.worktree !== null) return origin.worktree.boundTo;
    const { previous } = origin;
    if (worktree === null || previous === null) return null;
    // A waiting job runs where the ones before it ran.
    return previous.status === "queued" ? previous.bound_to : await deps.instanceWith(previous);
  };

  return submit;
};

export type Submit = ReturnType<typeof createSubmit>;

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Where a job comes from, besides its input. */
type Origin = {
  /** The newest job of the session to resume. */
  previous: JobRecord | null;
  /** The worktree that the caller named. */
  worktree: NamedWorktree | null;
  idempotency: JobRecord["idempotency"];
  principal: string;
};

/** A named worktree determines the repository; a resumed session stays in its own unless another is named. */
const completed = (
  input: RunTaskInput,
  previous: JobRecord | null,
  worktree: NamedWorktree | null,
): RunTaskInput => {
  if (worktree !== null) {
    if (input.base_ref !== "" && input.base_ref !== worktree.baseRef)
      throw new ServiceError(
        "invalid_request",
        `base_ref: the worktree ${worktree.id} is based on ${worktree.baseRef || "nothing"}; leave base_ref out`,
      );
    const repo_url = input.repo_url === "" ? worktree.repoUrl : input.repo_url;
    return { ...input, repo_url, base_ref: worktree.baseRef };
  }
  if (input.repo_url !== "" || previous === null) return input;
  const { repo_url } = previous;
  const base_ref = input.base_ref || previous.base_ref;
  const repositories = input.repositories.length > 0 ? input.repositories : alsoOf(previous);
  return { ...input, repo_url, base_ref, repositories };
};

const alsoOf = ({ repositories }: JobRecord): RunTaskInput["repositories"] =>
  repositories.map(({ repo_url, base_ref }) => ({ repo_url, base_ref }));

/** The worktree that a job takes over, if any. */
const worktreeOf = ({ previous, worktree }: Origin, repoUrl: string): NewRecord["worktree"] => {
  const ofSession = previous !== null && previous.repo_url === repoUrl ? previous : null;
  if (worktree === null) {
    return ofSession === null ? null : { id: ofSession.worktree_id, branch: ofSession.branch };
  }
  if (worktree.repoUrl !== repoUrl) {
    const own = worktree.repoUrl === "" ? "has no repository" : `is of ${worktree.repoUrl}`;
    throw new ServiceError(
      "invalid_request",
      `repo_url: the worktree ${worktree.id} ${own}; leave repo_url out`,
    );
  }
  const own = previous?.worktree_id ?? worktree.id;
  if (own !== worktree.id)
    throw new ServiceError(
      "invalid_request",
      `session_id: this session ran in the worktree ${own}; leave worktree_id out to resume it there`,
    );
  return worktree;
};

const requireOwnBranch = ({ options }: RunTaskInput, worktree: NewRecord["worktree"]): void => {
  if (worktree === null || options.branch === null) return;
  const own = worktree.branch === null ? "its branch" : `its branch ${worktree.branch}`;
  throw new ServiceError(
    "invalid_request",
    `options.branch: the job works in an older worktree, on ${own}; leave it out`,
  );
};

const idempotencyOf = (key: string | undefined, principal: string, input: RunTaskInput) => {
  // `wait` does not change what is asked for.
  const { wait: _wait, ...body } = input;
  return digestsOf(key, principal, given(body, defaults));
};

/**
 * Digests of an `Idempotency-Key`, scoped by caller, and of what is asked; null without a key.
 * @throws ServiceError `invalid_request`
 */
export const digestsOf = (
  key: string | undefined,
  principal: string,
  asked: object,
): JobRecord["idempotency"] => {
  if (key === undefined) return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw new ServiceError(
      "invalid_request",
      "Idempotency-Key: must be 1 to 255 printable ASCII characters without spaces",
    );
  return { key: digest(`${principal}\0${key}`), body: digest(JSON.stringify(asked)) };
};

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

const defaults = RunTaskInput.parse({ task: "any" });

/** The fields that differ from their defaults: one that the contract gets later does not change the digest. */
const given = (input: object, usual: object): object =>
  Object.fromEntries(
    Object.entries(input).flatMap(([name, value]: [string, unknown]) => {
      const standard = (usual as Record<string, unknown>)[name];
      if (JSON.stringify(value) === JSON.stringify(standard)) return [];
      return [[name, isObject(value) && isObject(standard) ? given(value, standard) : value]];
    }),
  );

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);
