import type { Client } from "../../client/client.ts";
import { bytes } from "./bytes.ts";
import { aligned, rightAligned } from "./columns.ts";
import type { Layout } from "./job-facts.ts";
import { oneLine } from "./sanitise.ts";
import { wrap } from "./width.ts";

export type Cleanup = Awaited<ReturnType<Client["cleanup_worktrees"]>>;
type Result = Cleanup["results"][number];

/** What became of each worktree, why it was left or where its work was saved, and what it comes to. */
export const cleanupReport = (
  { results, removed, dry_run: dry }: Cleanup,
  { paint, columns = 250 }: Layout,
): string => {
  const word = dry ? "would be removed" : "removed";
  const sizes = rightAligned(results.map((result) => bytes(result.size_bytes)));
  const lines = aligned(
    results.map((result, index) => [
      result.success ? word : "left",
      sizes[index] ?? "",
      oneLine(result.path),
    ]),
  );
  const rows = results.flatMap((result, index) => {
    const [first = ""] = [lines[index]];
    const painted = result.success ? first : first.replace("left", () => paint("yellow", "left"));
    return [painted, ...remarks(result).flatMap((text) => indented(text, columns))];
  });
  return [...rows, paint("dim", total({ results, removed, dry_run: dry }))].join("\n");
};

const remarks = ({ success, error, salvage_ref: ref }: Result): string[] => [
  ...(success || error === null ? [] : [oneLine(error)]),
  ...(ref === null ? [] : [`its unpushed work is saved as ${oneLine(ref)}`]),
];

const indent = "    ";

const indented = (text: string, columns: number): string[] =>
  wrap(text, Math.max(20, columns - indent.length)).map((line) => indent + line);

const total = ({ results, removed, dry_run: dry }: Omit<Cleanup, "success">): string => {
  const freed = results.reduce((sum, result) => sum + (result.success ? (result.size_bytes ?? 0) : 0), 0);
  const left = results.filter(({ success }) => !success).length;
  const what = dry
    ? `${removed} would be removed, ${bytes(freed)} freed`
    : `${removed} removed, ${bytes(freed)} freed`;
  return left === 0 ? what : `${what}; ${left} left in place`;
};
