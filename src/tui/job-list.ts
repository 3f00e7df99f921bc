import { jobTable } from "../view/job.ts";
import { cut } from "../view/columns.ts";
import type { Client } from "../client/client.ts";
import type { Job } from "../contract/job.ts";
import { section, type List, type Section } from "./list.ts";
import { createLiveLines } from "./live-lines.ts";
import type { Ui } from "./ui.ts";

/** Jobs that are read at once. */
const limit = 100;

type Options = {
  ui: Ui;
  /** The list that has the section. */
  list: () => List;
  open: (id: string) => void;
};

/**
 * The jobs of an instance, or of all that share its store: the newest, and more as the user goes down. Running ones on
 * the screen have a line with what they do.
 */
export const createJobList = ({ ui, list, open }: Options) => {
  const live = createLiveLines(ui.redraw);
  let all = false;
  let jobs: Job[] = [];
  let cursor: string | null = null;
  /** What `jobs` was read for. */
  let readFor = "";

  const isShown = (id: string): boolean =>
    list()
      .shown()
      .some((item) => item.id === id);

  return {
    toggle: (): void => void (all = !all),
    isAll: (): boolean => all,
    hasMore: (): boolean => cursor !== null,
    section: (): Section =>
      section({
        rows: jobs,
        table: (rows, columns) => jobTable(rows, { paint: ui.paint, columns, now: Date.now() }).split("\n"),
        item: (job) => {
          const line = job.status === "running" ? live.of(job.id) : null;
          return {
            id: job.id,
            words: job.task.slice(0, 2000),
            detail: line === null ? null : (columns) => ui.paint("dim", cut(line, columns, "start")),
            choose: () => open(job.id),
          };
        },
      }),
    /**
     * Reads the newest jobs, the next page where the user comes near the end, and what has become of those on the screen.
     * @param instance whose jobs to show unless it is all; null: it is not known
     */
    refresh: async (client: Client, instance: string | null, signal: AbortSignal): Promise<void> => {
      const query = { limit, status: all ? ("all" as const) : ("running" as const), q: list().filter() };
      const isOurs = (job: Job): boolean =>
        all || (job.status === "running" && (instance ?? job.pod_name) === job.pod_name);
      const key = JSON.stringify([query, instance]);
      const first = await client.list_jobs(query, { signal });
      if (key !== readFor) {
        jobs = [];
        cursor = first.next_cursor;
        readFor = key;
      }
      const known = new Set(first.jobs.map(({ id }) => id));
      const older = jobs.filter(({ id }) => !known.has(id));
      const stale = older.filter(
        ({ id, status }) => isShown(id) && (status === "queued" || status === "running"),
      );
      const fresh = new Map(
        await Promise.all(
          stale.map(async ({ id }) => [id, (await client.get_job({ job_id: id }, { signal })).job] as const),
        ),
      );
      jobs = [...first.jobs, ...older.map((job) => fresh.get(job.id) ?? job)].filter(isOurs);
      if (cursor !== null && list().isNearEnd()) {
        const more = await client.list_jobs({ ...query, cursor }, { signal });
        const there = new Set(jobs.map(({ id }) => id));
        jobs = [...jobs, ...more.jobs.filter((job) => !there.has(job.id) && isOurs(job))];
        cursor = more.next_cursor;
      }
      ui.redraw();
    },
    /** Shows what the running jobs on the screen do. */
    follow: (client: Client, signal: AbortSignal): void =>
      live.follow(
        client,
        jobs.filter(({ id, status }) => status === "running" && isShown(id)),
        signal,
      ),
  };
};
