import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";

/** A variable in the environment of a process that marks it; its children inherit it. */
export type Marker = {
  name: string;
  value: string;
  /** A second marker that the process must carry, too. */
  also?: Marker;
};

export type ProcessRow = {
  pid: number;
  parent: number;
  group: number;
  state: string;
  /** A zombie still has its files and children while any thread but the first is alive. */
  threads: number;
  startTime: string;
  /** Of the program, cut by the kernel to 15 bytes. */
  name: string;
};

/** Processes per tick of the event loop: about half a millisecond. */
const slice = 10;

/** When a scan is given up. */
const patience = { listings: 20, milliseconds: 500 };

/** Every living process, without zombies. */
export const processTable = async (): Promise<ProcessRow[]> => {
  const rows: ProcessRow[] = [];
  await joinScan({ readsEnvironment: false, visit: (row) => rows.push(row) });
  return rows;
};

/**
 * Visits living processes whose environment has exactly `NAME=VALUE` (and that of `also`), never this process or init. `visit`
 * is called in the same tick as /proc is read, so that a signal sent in it cannot reach a later process of the same number.
 * @returns pids that could not be inspected in time; empty: no marked process was missed
 */
export const visitMarked = async (marker: Marker, visit: (row: ProcessRow) => void): Promise<number[]> => {
  const entries = entriesOf(marker);
  return await joinScan({
    readsEnvironment: true,
    visit: (row, environment) => {
      if (environment !== null && entries.every((entry) => includes(environment, entry))) visit(row);
    },
  });
};

/** The members of the group and all their descendants, whatever their group or session is now. */
export const familyOf = (rows: readonly ProcessRow[], group: number): ProcessRow[] => {
  const members = rows.filter((row) => row.group === group || row.pid === group);
  return withDescendants(rows, members);
};

/** These processes and those of the rows that descend from them; never this process. */
export const withDescendants = (rows: readonly ProcessRow[], roots: readonly ProcessRow[]): ProcessRow[] => {
  const family = new Map(roots.map((row) => [row.pid, row]));
  for (let before = -1; before !== family.size;) {
    before = family.size;
    for (const row of rows) if (family.has(row.parent)) family.set(row.pid, row);
  }
  return [...family.values()].filter((row) => row.pid !== process.pid);
};

/** The process as it is now; null when it has ended or is a zombie. */
export const readRow = (pid: number): ProcessRow | null => {
  const row = readStat(pid)?.row ?? null;
  return row === null || isOver(row) ? null : row;
};

/** The process as it is now, also a zombie; null when it has ended. */
export const readAnyRow = (pid: number): ProcessRow | null => readStat(pid)?.row ?? null;

const isOver = ({ state, threads }: ProcessRow): boolean => state === "X" || (state === "Z" && threads <= 1);

type Stat = {
  row: ProcessRow;
  isKernelThread: boolean;
  isExiting: boolean;
  /** Whether the environment is complete: a process that is changing its program, or exiting, shows none or a part. */
  isWhole: (environment: Buffer) => boolean;
};

const readStat = (pid: number): Stat | null => {
  const stat = readShort(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command name in parentheses may contain anything: fields are counted after the last parenthesis.
  const end = stat.lastIndexOf(")");
  const fields = stat.slice(end + 2).split(" ");
  const [state = "", parent, group, , , , flags] = fields;
  const [memorySize, from, to] = [Number(fields[20]), Number(fields[47]), Number(fields[48])];
  return {
    row: {
      pid,
      parent: Number(parent),
      group: Number(group),
      state,
      threads: Number(fields[17]),
      startTime: fields[19] ?? "",
      name: stat.slice(stat.indexOf("(") + 1, end),
    },
    isKernelThread: (Number(flags) & 0x200000) !== 0,
    isExiting: memorySize === 0,
    isWhole: ({ length }) => (to === 0 ? length > 0 : length === to - from),
  };
};

/** Signals the process unless it has ended. */
export const signalProcess = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended, or may not be signalled: the next scan shows it if it is left.
  }
};

const entriesOf = (marker: Marker): Buffer[] => [
  Buffer.from(`${marker.name}=${marker.value}\0`),
  ...(marker.also === undefined ? [] : entriesOf(marker.also)),
];

const includes = (environment: Buffer, entry: Buffer): boolean => {
  for (let at = environment.indexOf(entry); at !== -1; at = environment.indexOf(entry, at + 1)) {
    if (at === 0 || environment[at - 1] === 0) return true;
  }
  return false;
};

type Visitor = {
  readsEnvironment: boolean;
  /** A process whose environment is not complete is visited again. Null: it may not be read, or no visitor reads any. */
  visit: (row: ProcessRow, environment: Buffer | null) => void;
};

let next: { visitors: Visitor[]; missed: Promise<number[]> } | null = null;
let last: Promise<unknown> = Promise.resolve();

/** Visits every process but this one and init. Visitors that come during a scan share the next one. */
const joinScan = (visitor: Visitor): Promise<number[]> => {
  if (next === null) {
    const visitors: Visitor[] = [];
    const missed = last.then(() => {
      next = null;
      return scan(visitors);
    });
    last = missed.catch(() => undefined);
    next = { visitors, missed };
  }
  next.visitors.push(visitor);
  return next.missed;
};

/**
 * Lists the processes and visits the new ones until a listing has no new ones: a process that ended during a scan may have
 * forked after the listing.
 * @returns pids that were not visited when the time was up
 */
const scan = async (visitors: readonly Visitor[]): Promise<number[]> => {
  const reads = visitors.some(({ readsEnvironment }) => readsEnvironment);
  const visitProcess = (pid: number): boolean | null => {
    const stat = readStat(pid);
    if (stat === null || isOver(stat.row)) return null;
    const environment = reads && !stat.isKernelThread ? readEnvironment(pid) : null;
    if (environment === undefined && readRow(pid) === null) return null;
    for (const { visit } of visitors) visit(stat.row, environment ?? null);
    if (environment === null) return !reads || stat.row.state !== "Z";
    return environment !== undefined && stat.row.state !== "Z" && stat.isWhole(environment);
  };
  const visited = new Set([1, process.pid]);
  const startedAt = performance.now();
  for (let listings = 1; ; listings += 1) {
    const missed: number[] = [];
    const fresh = listProcesses().filter((listed) => !visited.has(listed));
    for (const [index, pid] of fresh.entries()) {
      const seen = visitProcess(pid);
      if (seen !== false) visited.add(pid);
      if (seen !== true) missed.push(pid);
      if (index % slice === slice - 1) await nextTurn();
    }
    const isLate = listings > patience.listings && performance.now() - startedAt > patience.milliseconds;
    if (missed.length === 0 || isLate) return missed;
    // Not after each listing: the longer a scan takes, the more processes start meanwhile.
    if (listings % 4 === 0) await nextTurn();
  }
};

/** Empty without /proc: callers then rely on signals alone. */
export const listProcesses = (): number[] => {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
};

const short = Buffer.allocUnsafe(4096);

/** Reads a short file at once: twice as fast as `readFileSync`, and most of a scan is this. */
const readShort = (path: string): string | null => {
  try {
    const file = openSync(path, "r");
    try {
      return short.toString("latin1", 0, readSync(file, short));
    } finally {
      closeSync(file);
    }
  } catch {
    return null;
  }
};

/** Null for a process of another user; undefined for one that has ended or is exiting, whose child may not be listed yet. */
const readEnvironment = (pid: number): Buffer | null | undefined => {
  try {
    return readFileSync(`/proc/${pid}/environ`);
  } catch {
    // For an exiting process the kernel answers ESRCH to root, and EACCES to the user who owns it.
    return (readStat(pid)?.isExiting ?? true) ? undefined : null;
  }
};
