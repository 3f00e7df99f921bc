import { integer, text } from "../formats.ts";
import { parseKvUrl } from "../kv-url.ts";
import { variable } from "../variable.ts";

const kvUrl = text
  .superRefine((value, context) => {
    const parsed = parseKvUrl(value);
    if (typeof parsed === "string") context.addIssue(parsed);
  })
  .nullable();

/** Several instances on one key-value store. */
export const clusterVariables = {
  kvUrl: variable(
    "KV_URL",
    kvUrl,
    null,
    "Redis or Valkey that the instances share: `redis://`, `rediss://`, `redis+sentinel://`, `redis+cluster://`; unset: one instance, jobs in files",
    { secret: true },
  ),
  kvKeyPrefix: variable(
    "KV_KEY_PREFIX",
    text.regex(/^[A-Za-z0-9_.-]{1,64}$/, "must be 1 to 64 letters, digits and `_.-`"),
    "service",
    "First part of every key in the key-value store",
  ),
  kvEventLogMaxBytes: variable(
    "SERVICE_KV_EVENT_LOG_MAX_BYTES",
    integer(65_536, 1_073_741_824),
    "4194304",
    "Size in bytes of a job's event log in the key-value store past which thinking and text are left out",
  ),
  instanceLease: variable(
    "SERVICE_INSTANCE_LEASE",
    integer(2, 300),
    "10",
    "Seconds until an instance's lease expires without renewal; after half as long again the others settle its jobs",
  ),
  lostInstanceGrace: variable(
    "SERVICE_LOST_INSTANCE_GRACE",
    integer(0, 86_400),
    "300",
    "Seconds that jobs bound to a worktree of a lost instance wait for that instance to return",
  ),
  drainTimeout: variable(
    "SERVICE_DRAIN_TIMEOUT",
    integer(0, 86_400),
    "300",
    "Seconds that running jobs, chat turns and completions get to finish after SIGTERM before they are ended; 0: none",
  ),
};
