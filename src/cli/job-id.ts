import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "../client/client.ts";
import type { Job } from "../contract/job.ts";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { usageError } from "./failure.ts";

/**
 * The id that a word on the command line stands for: `latest`, the newest job; `-`, the one that the last command was about;
 * any other word is itself an id, or what the service completes to one.
 */
export const resolveJobId = async (client: Pick<Client, "list_jobs">, word: string): Promise<string> => {
  if (word === "latest") {
    const [newest] = (await client.list_jobs({ limit: 1 })).jobs;
    if (newest === undefined)
      throw usageError("latest is the newest job, and there is none: submit one with svc run");
    return newest.id;
  }
  if (word !== "-") return word;
  const last = await readFile(lastJobFile(), "utf8").catch(() => "");
  if (last.trim() === "")
    throw usageError(
      "- is the job that the last svc command was about, and there is none: give an id, or latest",
    );
  return last.trim();
};

/** The job that a word stands for. From then on `-` stands for it too. */
export const findJob = async (
  client: Pick<Client, "get_job" | "list_jobs">,
  word: string,
  signal?: AbortSignal,
): Promise<Job> => {
  const { job } = await client.get_job({ job_id: await resolveJobId(client, word) }, signal && { signal });
  await rememberJob(job.id);
  return job;
};

/** Makes this the job that `-` stands for. A home that cannot be written is no reason to fail. */
export const rememberJob = async (id: string): Promise<void> => {
  const file = lastJobFile();
  await mkdir(dirname(file), { mode: 0o700 })
    .catch(() => undefined)
    .then(() => writeFileAtomic(file, `${id}\n`))
    .catch(() => undefined);
};

const lastJobFile = (): string => join(homedir(), ".service", "last-job");
