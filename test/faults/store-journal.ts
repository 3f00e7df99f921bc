import { readFile } from "node:fs/promises";

/** A line of the fake agent's log. With `prompt`: it was given a task; with `wrote` or `committed`: it has done so. */
export type Note = {
  job: string;
  attempt: number;
  pid?: number;
  at?: string;
  wrote?: string;
  committed?: string;
};

/** What the agents noted themselves, in their order: the service's own records do not count as evidence. */
export const readJournal = async (path: string): Promise<Note[]> => {
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Note);
};

/** How many agents were given each job, by its id. */
export const runsIn = async (path: string): Promise<Map<string, number>> => {
  const runs = new Map<string, number>();
  for (const { job, pid } of await readJournal(path)) {
    if (pid !== undefined) runs.set(job, (runs.get(job) ?? 0) + 1);
  }
  return runs;
};
