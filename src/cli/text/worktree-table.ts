import type { Worktree } from "../../contract/worktree.ts";
import { bytes } from "./bytes.ts";
import { aligned, rightAligned } from "./columns.ts";
import { age } from "./duration.ts";
import type { Layout } from "./job-facts.ts";
import { oneLine } from "./sanitise.ts";
import { wrap } from "./width.ts";
import { paintWorktreeStatus } from "./worktree-status.ts";

/** A worktree a line, then what they come to. What a narrow terminal has no room for is in `svc worktrees show`. */
export const worktreeTable = (list: readonly Worktree[], { paint, columns = 250 }: Layout): string => {
  const { shown } = layouts.find(({ from }) => columns >= from) ?? narrowest;
  const cells = shown.map((name) => {
    const column = [name.toUpperCase(), ...list.map(cellOf[name])];
    return numeric.has(name) ? rightAligned(column) : column;
  });
  const rows = [null, ...list].map((_, index) => cells.map((column) => column[index] ?? ""));
  // At 80 columns there is room for the end of a repository's name at the least.
  const [head = "", ...lines] = aligned(rows, { columns, keep: "end", least: 5 });
  const painted = lines.map((line, index) => {
    const status = list[index]?.status;
    // An id has no letters beyond f: the first place that reads like the status is its cell.
    return status === undefined ? line : line.replace(status, () => paintWorktreeStatus(status, paint));
  });
  const sums = wrap(total(list), columns).map((line) => paint("dim", line));
  return [paint("bold", head), ...painted, ...sums].join("\n");
};

const cellOf = {
  id: ({ worktree_id: id }) => oneLine(id),
  status: ({ status }) => status,
  age: ({ age_hours: hours }) => age(hours * 3_600_000),
  size: ({ size_bytes: size }) => bytes(size),
  pushed: ({ pushed }) => pushedWord(pushed),
  kind: ({ prepared }) => (prepared ? "prepared" : "job"),
  repository: ({ repo_url: url }) => repository(url),
  // A heading for where there is room for no more than the end of the address.
  repo: ({ repo_url: url }) => repository(url),
} satisfies Record<string, (worktree: Worktree) => string>;

type Column = keyof typeof cellOf;

const numeric: ReadonlySet<Column> = new Set(["age", "size"]);

type Shown = { from: number; shown: Column[] };

/** What fits, whatever stands in it, from so many columns of the terminal on; ids and what is not pushed always. */
const narrowest: Shown = { from: 0, shown: ["id", "status", "pushed"] };
const layouts: Shown[] = [
  { from: 100, shown: ["id", "status", "age", "size", "pushed", "kind", "repository"] },
  { from: 80, shown: ["id", "status", "age", "size", "pushed", "repo"] },
  { from: 63, shown: ["id", "status", "age", "pushed"] },
];

const pushedWord = (pushed: boolean | null): string => {
  if (pushed === null) return "–";
  return pushed ? "yes" : "no";
};

/** A repository's address as a list shows it. */
export const repository = (url: string): string => (url === "" ? "(none)" : oneLine(url));

const total = (list: readonly Worktree[]): string => {
  const size = list.reduce((sum, { size_bytes }) => sum + (size_bytes ?? 0), 0);
  const unpushed = list.filter(({ pushed }) => pushed === false).length;
  const failed = list.filter(({ status }) => status === "failed").length;
  return [
    `${list.length} ${list.length === 1 ? "worktree" : "worktrees"}, ${bytes(size)}`,
    ...(unpushed > 0 ? [`${unpushed} not pushed`] : []),
    ...(failed > 0 ? [`${failed} failed: svc worktrees show ID says why`] : []),
  ].join("; ");
};
