import { join } from "node:path";

/** Where the room keeps what it writes; all paths absolute. */
export type Places = {
  /** The config directories of jobs, and of processes of agent mode, named by the id. */
  jobs: string;
  /** Sessions and transcripts of all jobs: each config directory links to it. */
  projects: string;
  /** `file_path` of a request must lie under it; null: there is none. */
  sharedFsRoot: string | null;
};

export const placesOf = ({ home, sharedFsRoot }: { home: string; sharedFsRoot: string | null }): Places => {
  const own = join(home, ".service");
  return sharedFsRoot === null
    ? { jobs: join(own, "jobs-config"), projects: join(own, "projects"), sharedFsRoot }
    : { jobs: join(sharedFsRoot, "jobs"), projects: join(sharedFsRoot, "projects"), sharedFsRoot };
};

/** Ids come from our own records; anything else in this place would be a path. */
export const configDirectory = ({ jobs }: Places, jobId: string): string => {
  if (!/^[A-Za-z0-9][A-Za-z0-9-]*$/.test(jobId))
    throw new Error(`${JSON.stringify(jobId)} is not the id of a job`);
  return join(jobs, jobId);
};
