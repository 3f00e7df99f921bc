import { endGroup } from "./group.ts";
import { isAlive, type ProcessIdentity } from "./identity.ts";
import { sweep, type SweepReport } from "./sweep.ts";
import { readRow, type Marker, type ProcessRow } from "./table.ts";

/**
 * Ends what a dead instance left running: the recorded process with its group, if it is still the same process (pid, start
 * time and boot), then everything that carries the marker. A pid that has been reused is not touched, and neither is its group.
 */
export const killOrphans = async (
  identity: ProcessIdentity | null,
  marker: Marker,
  { graceSeconds }: { graceSeconds: number },
): Promise<SweepReport> => {
  const row = identity !== null && (await isAlive(identity)) ? readRow(identity.pid) : null;
  let known: ProcessRow[] = [];
  if (row !== null && row.startTime === identity?.start_time) {
    // The service's processes lead their groups. One that does not is ended alone: its group may not be the job's.
    known = row.group === row.pid ? await endGroup(row.group, graceSeconds) : [row];
  }
  return await sweep(marker, known);
};
