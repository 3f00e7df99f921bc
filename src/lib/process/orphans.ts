import { realpath } from "node:fs/promises";
import { endGroup } from "./group.ts";
import { bootId, isAlive, type ProcessIdentity } from "./identity.ts";
import { sweep, type SweepReport } from "./sweep.ts";
import { readRow, type Marker, type ProcessRow } from "./table.ts";

/**
 * Ends what a dead instance left running: the recorded process with its group, if it is still the same process (pid, start
 * time and boot), then everything that carries the marker, and daemons that have started since in its `directories` (see
 * `createDaemonCheck`). A pid that has been reused is not touched, and neither is its group.
 */
export const killOrphans = async (
  identity: ProcessIdentity | null,
  marker: Marker,
  { graceSeconds, directories = [] }: { graceSeconds: number; directories?: readonly string[] },
): Promise<SweepReport> => {
  const row = identity !== null && (await isAlive(identity)) ? readRow(identity.pid) : null;
  let known: ProcessRow[] = [];
  if (row !== null && row.startTime === identity?.start_time) {
    // The service's processes lead their groups. One that does not is ended alone: its group may not be the job's.
    known = row.group === row.pid ? await endGroup(row.group, graceSeconds) : [row];
  }
  const isThisBoot = identity !== null && identity.boot_id === (await bootId());
  const workplace =
    isThisBoot && directories.length > 0
      ? { since: identity.start_time, directories: await Promise.all(directories.map(realPathOf)) }
      : undefined;
  return await sweep(marker, { known, workplace });
};

const realPathOf = (path: string): Promise<string> => realpath(path).catch(() => path);
