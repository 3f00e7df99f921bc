import { join } from "node:path";
import { integer, optionalPath, path, text } from "../formats.ts";
import { variable } from "../variable.ts";

/** Jobs: records, limits, profiles. */
export const jobVariables = {
  jobsDir: variable(
    "SERVICE_JOBS_DIR",
    path,
    ({ home }) => join(home, ".service", "jobs"),
    "Directory of the job records and event logs",
  ),
  jobTtl: variable(
    "SERVICE_JOB_TTL",
    integer(1, 31_536_000),
    "86400",
    "Seconds a job may wait, and seconds its record is kept after its end",
  ),
  maxParallelJobs: variable("SERVICE_MAX_PARALLEL_JOBS", integer(1, 1000), "3", "Jobs that run at once"),
  maxQueuedJobs: variable(
    "SERVICE_MAX_QUEUED_JOBS",
    integer(1, 1_000_000),
    "10000",
    "Jobs that may wait; beyond it submissions get 503",
  ),
  eventLogMaxBytes: variable(
    "SERVICE_EVENT_LOG_MAX_BYTES",
    integer(65_536, 10_737_418_240),
    "67108864",
    "Size in bytes of a job's event log past which thinking and text are left out",
  ),
  podName: variable(
    "SERVICE_POD_NAME",
    text.regex(
      /^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$/,
      "must be letters, digits and `._-`, beginning with a letter or digit",
    ),
    ({ hostname }) => hostname,
    "Name of this instance, recorded on each job",
  ),
  defaultProfile: variable(
    "SERVICE_DEFAULT_PROFILE",
    text.regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, "must be the name of a profile"),
    "code",
    "Profile of a task that no routing rule matches",
  ),
  sharedFsRoot: variable(
    "SERVICE_SHARED_FS_ROOT",
    optionalPath,
    null,
    "Shared read-write file system; jobs' configuration goes under {root}/jobs/, and file_path must lie under it",
  ),
};
