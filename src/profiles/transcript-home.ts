import { hash } from "node:crypto";
import { lstat, mkdir, open, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../lib/log.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { readContained } from "./contained.ts";

/**
 * A directory laid out like one of the CLI's own, so that the transcript service can read it: `projects/`, to which
 * all config directories link, and what these would take with them. Nothing here fails a job: faults are warnings.
 */
export type TranscriptHome = {
  /** Notes in `origins.jsonl` which job, or (null) that a conversation, a session belongs to. Never rejects. */
  noteSession: (sessionId: string, job: SessionJob | null) => Promise<void>;
  /**
   * Copies `plans/*.md` of a config directory, and appends its `history.jsonl`. To be called before the directory is
   * removed; `id` is the job's or process's. Repeatable: lines of the history are doubled only by a crash between
   * their append and the removal of the source, or by two instances that remove one lost directory at the same moment.
   * Never rejects.
   */
  keepDocuments: (configDir: string, id: string) => Promise<void>;
};

/** `repo_url` is empty for a job without a repository. */
export type SessionJob = { id: string; repo_url: string };

/** `now` in ms since the epoch. */
type Options = { root: string; now: () => number; log: Pick<Log, "warn"> };

export const createTranscriptHome = ({ root, now, log }: Options): TranscriptHome => ({
  noteSession: async (sessionId, job) => {
    const jobId = job?.id ?? null;
    const origin = {
      session_id: sessionId,
      kind: job === null ? "chat" : "job",
      job_id: jobId,
      repo_url: job?.repo_url || null,
      at: new Date(now()).toISOString(),
    };
    await append(join(root, "origins.jsonl"), Buffer.from(`${JSON.stringify(origin)}\n`)).catch(
      (err: unknown) => log.warn({ err, job: jobId, session: sessionId }, "a session's origin is not noted"),
    );
  },
  keepDocuments: async (configDir, id) => {
    // An agent can put a link in its place, and its files are the service's user's own.
    const isOwn = await lstat(configDir)
      .then((status) => status.isDirectory())
      .catch(() => false);
    if (!isOwn) return;
    const names = await readdir(join(configDir, "plans")).catch(() => []);
    const plans = names.filter((name) => name.endsWith(".md"));
    const steps = [
      ...plans.slice(0, maxPlans).map((name) => () => keepPlan(root, configDir, name)),
      () => keepHistory(root, configDir),
    ];
    const faults = plans.length > maxPlans ? [`only ${maxPlans} of ${plans.length} plans are kept`] : [];
    for (const step of steps) await step().catch((error: unknown) => faults.push(String(error)));
    if (faults.length > 0)
      log.warn({ job: id, faults: faults.slice(0, 5) }, "plans or history of an agent are not kept");
  },
});

/** Limits of what is kept of one config directory. */
const maxPlans = 1000;
const maxPlanBytes = 1_048_576;
const maxHistoryBytes = 16_777_216;

/** Another plan of this name stays: this one then gets the beginning of its digest. */
const keepPlan = async (root: string, configDir: string, name: string): Promise<void> => {
  const source = { root: configDir, path: join(configDir, "plans", name), maxBytes: maxPlanBytes };
  const bytes = (await readContained(source))?.bytes;
  if (bytes === undefined) return;
  const directory = join(root, "plans");
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const candidate of [name, `${name.slice(0, -".md".length)}-${hash("sha256", bytes).slice(0, 8)}.md`]) {
    const path = join(directory, candidate);
    if (await createNew(path, bytes)) return;
    const known = await readContained({ root: directory, path, maxBytes: maxPlanBytes }).catch(() => null);
    if (known?.bytes.equals(bytes) === true) return;
  }
  throw new Error(`${source.path}: files of its names in ${directory} are others`);
};

/** False: a file of that name has appeared. A crash may leave a torn one: the next try then takes another name. */
const createNew = (path: string, bytes: Buffer): Promise<boolean> =>
  writeFile(path, bytes, { mode: 0o600, flag: "wx", flush: true }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
      throw error;
    },
  );

const keepHistory = async (root: string, configDir: string): Promise<void> => {
  const path = join(configDir, "history.jsonl");
  const history = await readContained({ root: configDir, path, maxBytes: maxHistoryBytes });
  if (history === null) return;
  const { bytes } = history;
  const lines = bytes.at(-1) === lineFeed ? bytes : Buffer.concat([bytes, Buffer.of(lineFeed)]);
  if (bytes.length > 0) await append(join(root, "history.jsonl"), lines);
  // Not with the rest of the directory, whose removal may fail and be repeated.
  await rm(path);
};

const lineFeed = 0x0a;

/** In one call: other processes append to the same file. */
const append = async (path: string, lines: Buffer): Promise<void> => {
  await using file = await open(path, nonBlocking.append, 0o600);
  const { bytesWritten } = await file.write(lines);
  await file.datasync();
  if (bytesWritten < lines.length)
    throw new Error(`${path}: only ${bytesWritten} of ${lines.length} bytes were written`);
};
