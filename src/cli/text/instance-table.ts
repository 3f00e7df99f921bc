import type { Instance } from "../../contract/instance.ts";
import { aligned, rightAligned } from "./columns.ts";
import { age } from "./duration.ts";
import type { Paint } from "./paint.ts";
import { oneLine } from "./sanitise.ts";

type Options = { paint: Paint; columns: number | undefined; now: number };

/** An instance a line. The name comes last: it is what a narrow terminal may cut. */
export const instanceTable = (list: readonly Instance[], { paint, columns = 250, now }: Options): string => {
  const cells = [
    ["STATE", ...list.map(({ draining }) => (draining ? "draining" : "ready"))],
    rightAligned(["RUNNING", ...list.map((each) => `${each.running} of ${each.max_parallel_jobs}`)]),
    rightAligned(["TURNS", ...list.map(({ turns }) => String(turns))]),
    rightAligned(["UP", ...list.map((each) => age(now - Date.parse(each.started_at)))]),
    ["VERSION", ...list.map(({ version }) => oneLine(version))],
    ["NAME", ...list.map(({ name }) => oneLine(name))],
  ];
  const rows = [null, ...list].map((_, index) => cells.map((column) => column[index] ?? ""));
  const [head = "", ...lines] = aligned(rows, { columns });
  const painted = lines.map((line) =>
    line
      .replace(/^draining/, (word) => paint("yellow", word))
      .replace(/^ready/, (word) => paint("green", word)),
  );
  return [paint("bold", head), ...painted].join("\n");
};
