import { realpath } from "node:fs/promises";
import { endGroup, type EndGroupOptions } from "./group.ts";
import { bootId, isAlive, type ProcessIdentity } from "./identity.ts";
import { sweep, type SweepReport } from "./sweep.ts";
import { readRow, type Marker, type ProcessRow } from "./table.ts";

export type OrphanReport = SweepReport & {
  /** Whether the recorded process itself was still alive. */
  found: boolean;
};

/**
 * Ends what a dead instance left running: the recorded process with its group, if it is still the same process (pid, start
 * time and boot), then everything that carries the marker, and daemons that have started since in its `directories` (see
 * `createDaemonCheck`). A pid that has been reused is not touched, and neither is its group.
 */
export const killOrphans = async (
  identity: ProcessIdentity | null,
  marker: Marker,
  { graceSeconds, signal, directories = [] }: EndGroupOptions & { directories?: readonly string[] },
): Promise<OrphanReport> => {
  const found = identity !== null && (await isAlive(identity));
  const known: ProcessRow[] = [];
  if (found) {
    const row = readRow(identity.pid);
    // The service's processes lead their groups. One that does not is ended alone: its group may not be the job's.
    if (row?.startTime === identity.start_time && row.group === row.pid) {
      known.push(...(await endGroup(row.group, { graceSeconds, signal })));
    } else if (row?.startTime === identity.start_time) {
      known.push(row);
    }
  }
  const since = identity?.boot_id === (await bootId()) && directories.length > 0 ? identity.start_time : null;
  const workplace =
    since === null ? undefined : { since, directories: await Promise.all(directories.map(real)) };
  return { found, ...(await sweep(marker, { known, workplace, ...(signal && { signal }) })) };
};

const real = (path: string): Promise<string> => realpath(path).catch(() => path);
