import type { SettleLost } from "../jobs/run.ts";
import { mayRunAgain, wasPushed } from "../jobs/settle.ts";
import type { Log } from "../lib/log.ts";
import { jobMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { leftWarnings } from "../lib/process/sweep.ts";
import { furtherSaved } from "../repos/several.ts";
import { exchanged, type Repos, type Worktree } from "../repos/repos.ts";
import { outlivesInstance, type JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { type KeptFiles, NotExchanged } from "../store/kept-files.ts";
import { warnOfIgnored } from "./deliver.ts";
import { message, type Progress } from "./ends.ts";

export type Saving = {
  repos: Repos;
  keptFiles: KeptFiles;
  log: Log;
  /** Marks the processes that this instance starts. */
  instance: string;
  /** Seconds between SIGTERM and SIGKILL for orphans of a lost run; short, since nothing reads their answer. */
  orphanGrace: number;
  /** Longest time to save the work of an interrupted job, seconds. */
  salvageTimeout: number;
};

/** What becomes of the files of a job that is not delivered. */
export const createSaving = (deps: Saving) => {
  const { repos, log } = deps;

  /** Removes the throwaway worktree of a read-only job. */
  const discard = async (record: JobRecord, { isThrowaway }: Pick<Progress, "isThrowaway">) => {
    if (!isThrowaway) return;
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    for (const worktree of [{ worktreeId: record.id }, ...(await repos.furtherWorktrees(record.id))])
      await repos.removeWorktree(worktree, signal).catch((err: unknown) => {
        log.warn({ err, job: record.id }, "the throwaway worktree of a read-only job could not be removed");
      });
  };

  /** Keeps what the agent has left for people. That it cannot be copied fails no job. @throws NotExchanged */
  const keepFiles = async (
    record: JobRecord,
    { path: worktree }: Pick<Worktree, "path">,
    warn: (message: string) => void,
  ): Promise<JobPatch> => {
    try {
      const { files, warnings } = await deps.keptFiles.keep(record.id, { worktree, name: exchanged.out });
      warnings.forEach(warn);
      return { files };
    } catch (error) {
      if (error instanceof NotExchanged) throw error;
      log.error({ err: error, job: record.id }, "the files that an agent left could not be kept");
      warn(`The files in ${exchanged.out} could not be kept (${message(error)})`);
      return {};
    }
  };

  const saveWork = async (
    record: JobRecord,
    { worktree, isThrowaway }: Pick<Progress, "worktree" | "isThrowaway">,
    warn: (message: string) => void,
  ): Promise<JobPatch> => {
    if (worktree === null) return {};
    const files = await keepFiles(record, worktree, warn).catch((error: unknown) => {
      warn(message(error).replace(advice, ""));
      return {};
    });
    if (isThrowaway) {
      await discard(record, { isThrowaway });
      return files;
    }
    for (const other of await repos.furtherWorktrees(worktree.worktreeId)) {
      const { salvage_ref: ref } = await salvageOf(record, other, warn);
      if (ref) warn(furtherSaved(other, ref));
    }
    return { ...files, ...(await salvageOf(record, worktree, warn)) };
  };

  const salvageOf = async (record: JobRecord, worktree: Worktree, warn: (message: string) => void) => {
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    try {
      const { ref, kept } = await repos.salvage(worktree, record.id, signal);
      await warnOfIgnored({ repos, worktree, signal }, warn);
      if (kept.length > 0)
        warn(`The worktree ${worktree.path} is kept, because git cannot save all of it: ${kept.join(", ")}`);
      return ref === null ? {} : { salvage_ref: ref, branch: worktree.branch };
    } catch (error) {
      const said = "the job's unfinished work could not be saved; its worktree is kept";
      log.error({ err: error, job: record.id }, said);
      const why = message(error).replace(advice, "");
      warn(`The unfinished work could not be saved (${why}); it is still in ${worktree.path}, which is kept`);
      return {};
    }
  };

  const warnOfAll = async (worktree: Worktree, warn: (message: string) => void): Promise<void> => {
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    for (const each of [worktree, ...(await repos.furtherWorktrees(worktree.worktreeId))])
      await warnOfIgnored({ repos, worktree: each, signal }, warn).catch((err: unknown) =>
        log.warn({ err }, "what git ignores of a lost run could not be looked for"),
      );
  };

  const checkedOut = async (worktree: Worktree, tip: string): Promise<void> => {
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    const again = { commit: tip, tip, from: worktree.baseSha ?? undefined };
    const done = repos.checkOutCommit(worktree, again, signal).then(() => repos.markAgentWork(worktree));
    await done.catch((err: unknown) => {
      log.warn({ err }, "the worktree of a job that was being checked does not have its files again");
    });
  };

  const settleLost: SettleLost = async (record) => {
    const worktreeId = record.worktree_id ?? record.id;
    const worktree = await repos.findWorktree(worktreeId);
    const left = await killOrphans(record.process, jobMarker(record.id, deps.instance), {
      graceSeconds: deps.orphanGrace,
    });
    // It ended well: retention handles its worktree like that of any other such job.
    if (record.status !== "cancelled" && wasPushed(record)) return { requeue: false, patch: {} };
    // A check of the commit that the work began with may have been under way.
    if (record.checking !== null && record.commit_sha !== null && worktree !== null)
      await checkedOut(worktree, record.commit_sha);
    const warnings = [...record.warnings, ...leftWarnings(left)];
    const again = mayRunAgain(record);
    const warn = (text: string) => void warnings.push(text);
    if (record.status === "running" && (again || outlivesInstance(record))) {
      // The next attempt marks anew what is its agent's.
      if (again && worktree !== null) await warnOfAll(worktree, warn);
      return { requeue: true, patch: { warnings } };
    }
    const saved = await saveWork(record, { worktree, isThrowaway: record.read_only === true }, warn);
    return { requeue: false, patch: { ...saved, warnings } };
  };

  return { discard, keepFiles, saveWork, settleLost };
};

const advice = /\nWhat to do: .*/;
