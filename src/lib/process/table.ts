import { readdirSync, readFileSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ProcessIdentity } from "./identity.ts";

/** A variable in the environment of a process that tells to whom it belongs; its children inherit it. */
export type Marker = {
  name: string;
  value: string;
  /** A second one, which it must carry too. */ also?: Marker;
};

export type ProcessRow = { pid: number; parent: number; group: number; state: string; startTime: string };

/** Reads of /proc done in one go, a few milliseconds: the event loop serves others in between. */
const slice = 100;

/** Every process that is alive; zombies are not. */
export const processTable = async (): Promise<ProcessRow[]> => {
  const rows: ProcessRow[] = [];
  for await (const pid of pids()) {
    const row = readRow(pid);
    if (row !== null) rows.push(row);
  }
  return rows;
};

/**
 * Living processes whose environment holds exactly `NAME=VALUE` (and what `also` says), never this process or init. `visit` is called in the
 * same breath as the look at /proc, so that a signal sent in it cannot meet a later process of the same number.
 */
export const visitMarked = async (marker: Marker, visit: (row: ProcessRow) => void): Promise<void> => {
  const entries = entriesOf(marker);
  for await (const pid of pids()) {
    if (!carries(pid, entries)) continue;
    const row = readRow(pid);
    if (row !== null) visit(row);
  }
};

/** Identities of the living processes that carry the marker. */
export const findMarked = async (marker: Marker): Promise<Pick<ProcessIdentity, "pid" | "start_time">[]> => {
  const found: Pick<ProcessIdentity, "pid" | "start_time">[] = [];
  await visitMarked(marker, (row) => found.push({ pid: row.pid, start_time: row.startTime }));
  return found;
};

/** The members of the group and all their descendants, whatever group or session those are in by now. */
export const familyOf = (rows: readonly ProcessRow[], group: number): ProcessRow[] => {
  const family = new Map(
    rows.filter((row) => row.group === group || row.pid === group).map((row) => [row.pid, row]),
  );
  for (let before = -1; before !== family.size;) {
    before = family.size;
    for (const row of rows) if (family.has(row.parent)) family.set(row.pid, row);
  }
  return [...family.values()].filter((row) => row.pid !== process.pid);
};

/** The process as it is now; null when it is gone or a zombie. */
export const readRow = (pid: number): ProcessRow | null => {
  const stat = readProc(`/proc/${pid}/stat`)?.toString("latin1");
  if (stat === undefined) return null;
  // The command name stands in parentheses and may hold anything: fields are counted from the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state = "", parent, group] = fields;
  if (state === "Z" || state === "X") return null;
  return { pid, parent: Number(parent), group: Number(group), state, startTime: fields[19] ?? "" };
};

/** Signals the process unless it is gone. */
export const signalProcess = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone since it was seen, or not ours to signal: what is left is told by the next look at /proc.
  }
};

const entriesOf = (marker: Marker): Buffer[] => [
  Buffer.from(`${marker.name}=${marker.value}\0`),
  ...(marker.also === undefined ? [] : entriesOf(marker.also)),
];

const carries = (pid: number, entries: readonly Buffer[]): boolean => {
  const environment = readProc(`/proc/${pid}/environ`);
  return environment !== null && entries.every((entry) => holds(environment, entry));
};

const holds = (environment: Buffer, entry: Buffer): boolean => {
  for (let at = environment.indexOf(entry); at !== -1; at = environment.indexOf(entry, at + 1)) {
    if (at === 0 || environment[at - 1] === 0) return true;
  }
  return false;
};

async function* pids(): AsyncGenerator<number> {
  let read = 0;
  for (const name of listProc()) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid <= 1 || pid === process.pid) continue;
    yield pid;
    read += 1;
    if (read % slice === 0) await nextTurn();
  }
}

/** Nothing where there is no /proc: what needs it then does what it can with signals alone. */
const listProc = (): string[] => {
  try {
    return readdirSync("/proc");
  } catch {
    return [];
  }
};

/** Null for a process that is gone or belongs to somebody else. */
const readProc = (path: string): Buffer | null => {
  try {
    return readFileSync(path);
  } catch {
    return null;
  }
};
