import type { Instance, Overview } from "../../contract/instance.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer, type Layout } from "../print.ts";
import { table, wrap } from "../text/columns.ts";
import { age, counted, duration } from "../text/quantities.ts";
import { oneLine } from "../text/sanitise.ts";

/** `svc instances` */
export const instances = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.list_instances(), json, (body, layout) => {
    const lines = body.instances.length === 0 ? [] : instanceTable(body.instances, layout, Date.now());
    return [...lines, ...queueLines(body, layout)].join("\n");
  });

/** One line per instance. The name is last: a narrow terminal may cut it. */
export const instanceTable = (list: readonly Instance[], layout: Layout, now: number): string[] =>
  table(
    list,
    [
      ["STATE", (each) => state(each, layout)],
      ["RUNNING", (each) => `${each.running} of ${each.max_parallel_jobs}`, "right"],
      ["TURNS", ({ turns }) => String(turns), "right"],
      ["UP", (each) => age(now - Date.parse(each.started_at)), "right"],
      ["VERSION", ({ version }) => oneLine(version)],
      ["NAME", ({ name }) => oneLine(name)],
    ],
    layout,
  );

const state = ({ draining }: Instance, { paint }: Layout): string =>
  draining ? paint("yellow", "draining") : paint("green", "ready");

/** Length of the queue and its workers; jobs lost with an instance only when there are any. */
export const queueLines = (
  { queue, instances: list, lost, recovered }: Overview,
  { paint, columns = Infinity }: Layout,
): string[] => {
  const { waiting, running, oldest_wait_seconds: oldest } = queue;
  const longest = oldest === null ? "" : `, the oldest for ${duration(oldest * 1000)}`;
  const shares = list.length === 0 ? "" : `: ${list.map(share).join(", ")}`;
  return [
    `${waiting} waiting${longest}; ${running} running${shares}`,
    ...(lost + recovered > 0
      ? [`${counted(lost, "job")} failed with a lost instance, ${recovered} queued again after one`]
      : []),
  ].flatMap((line) => wrap(line, columns).map((row) => paint("dim", row)));
};

const share = ({ name, running, max_parallel_jobs: most, draining }: Instance): string =>
  `${oneLine(name)} ${running} of ${most}${draining ? " (draining)" : ""}`;
