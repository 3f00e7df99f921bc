import { exitCode } from "../cli/failure.ts";
import { counted, cut, table, type Column } from "../view/columns.ts";
import { oneLine } from "../view/sanitise.ts";
import type { Fleet, Remote } from "../fleet/fleet.ts";
import type { LocalAgent } from "../main/local-agents.ts";
import { createList, listScreen, section, type List } from "./list.ts";
import { packageScreen } from "./package-screen.ts";
import { remoteScreen } from "./remote-screen.ts";
import { createRepeat } from "./repeat.ts";
import type { Screen, Ui } from "./ui.ts";
import type { World } from "./world.ts";

const everyMs = 3000;

type Listed = Awaited<ReturnType<Fleet["list"]>>;

/** The first screen: instances, then local agent packages. */
export const fleetScreen = (world: World): Screen => {
  const { ui, fleet } = world;
  let remotes: Remote[] | null = null;
  let packages: LocalAgent[] = [];
  let faults: string[] = [];

  const refresh = createRepeat(async (signal) => {
    const [found, local] = await Promise.allSettled([fleet.list(signal), world.local()]);
    if (signal.aborted) return;
    if (found.status === "fulfilled") remotes = withLost(found.value, remotes ?? []);
    if (local.status === "fulfilled") packages = local.value;
    const failed = [found, local].filter((each) => each.status === "rejected");
    faults = [
      ...(found.status === "fulfilled" && found.value.remotes.length === 0 ? found.value.faults : []),
      ...failed.map(({ reason }) => (reason instanceof Error ? reason.message : String(reason))),
    ];
    ui.redraw();
  }, everyMs);

  const list: List = createList(ui, () => [
    section({
      rows: remotes ?? [],
      table: (rows, columns) => table(rows, remoteColumns(ui, columns), { paint: ui.paint, columns }),
      item: (remote) => ({
        id: `remote ${remote.name}`,
        words: `${remote.name} ${remote.kind} ${remote.state}`,
        detail: faultLine(ui, remote.fault),
        choose: () => ui.open(remoteScreen(world, remote, () => packages)),
      }),
    }),
    section({
      rows: packages,
      table: (rows, columns) =>
        table(
          rows,
          [
            ["LOCAL PACKAGE", ({ name }) => oneLine(name)],
            ["", ({ description }) => oneLine(description ?? "")],
          ],
          { paint: ui.paint, columns },
        ),
      item: (local) => ({
        id: `package ${local.name}`,
        words: `${local.name} local ${local.description ?? ""}`,
        detail: faultLine(ui, local.error),
        choose: () => ui.open(packageScreen(world, local)),
      }),
    }),
  ]);

  return listScreen(ui, {
    title: () =>
      remotes === null
        ? "svc agents  looking for instances"
        : `svc agents  ${counted(remotes.length, "instance")}, ${counted(packages.length, "local package")}`,
    list,
    faults: () => faults,
    hints: () => "1-N open  / filter  r refresh  ? help  q quit",
    keys: {
      r: () => {
        remotes = remotes?.filter(({ state }) => state !== "unreachable") ?? null;
        ui.say("Refreshing");
        refresh.now();
      },
      q: () => ui.quit(exitCode.ok),
    },
    watch: refresh.run,
  });
};

/** What was there before and is not listed any more is shown as lost, until the user refreshes. */
const withLost = ({ remotes, faults }: Listed, before: readonly Remote[]): Remote[] => {
  const fault = faults.at(-1) ?? "It is not listed any more: it was stopped, or is lost";
  const lost = before.filter(({ name }) => !remotes.some((remote) => remote.name === name));
  return [...remotes, ...lost.map((remote) => ({ ...remote, state: "unreachable" as const, fault }))];
};

const faultLine = ({ paint }: Ui, fault: string | null): ((columns: number) => string) | null =>
  fault === null ? null : (columns) => paint("yellow", cut(oneLine(fault), columns));

const stateColours = { ready: "green", draining: "yellow", unreachable: "red" } as const;

/** What matters most comes first: a narrow terminal cuts the rest. */
const remoteColumns = ({ paint }: Ui, columns: number): Column<Remote>[] => [
  ["INSTANCE", ({ name }) => cut(oneLine(name), Math.max(12, Math.floor(columns / 2.5)))],
  ["STATE", ({ state }) => paint(stateColours[state], state)],
  ["JOBS", ({ instance }) => (instance ? `${instance.running}/${instance.max_parallel_jobs}` : "–")],
  ["QUEUE", ({ waiting }) => String(waiting ?? "–")],
  ["TURNS", ({ instance }) => String(instance?.turns ?? "–")],
  ["KIND", ({ kind }) => kind],
  ["VERSION", ({ instance }) => oneLine(instance?.version ?? "–")],
];
