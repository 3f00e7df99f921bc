import { render, Text, useStdout } from "ink";
import { createElement as h, useEffect, useReducer, useRef, useState, type ReactNode } from "react";
import type { Client } from "../client/client.ts";
import type { Job } from "../contract/job.ts";
import { messageOf } from "../fleet/addressed.ts";
import type { Fleet, Remote } from "../fleet/fleet.ts";
import { pause } from "../lib/wait.ts";
import type { LocalAgent } from "../main/local-agents.ts";
import { counted, cut, table, type Column } from "../view/columns.ts";
import { jobTable } from "../view/job.ts";
import { createNarration } from "../view/narration.ts";
import type { Paint } from "../view/paint.ts";
import { oneLine } from "../view/sanitise.ts";
import { waitingLine } from "../view/waiting.ts";
import { followAction, packageActions, remoteActions } from "./actions.ts";
import type { Action, AgentsContext } from "./agents.ts";
import { gutter, Menu, type Entry, type Section } from "./menu.ts";

type Chosen = Action | "quit" | "interrupted";

/** What the menu shows, kept while an action has the terminal. */
type Shown = {
  /** What was opened; null: the list of all. */
  opened: { remote: Remote; conversation: string } | LocalAgent | null;
  remotes: Remote[] | null;
  packages: LocalAgent[];
  faults: string[];
};

type Props = { context: AgentsContext; paint: Paint; shown: Shown; leave: (chosen: Chosen) => void };

/** A function that shows the menu until something is chosen, and then what it showed before. */
export const openMenu = (context: AgentsContext, paint: Paint): (() => Promise<Chosen>) => {
  const shown: Shown = { opened: null, remotes: null, packages: [], faults: [] };
  return async () => {
    const { promise, resolve: leave } = Promise.withResolvers<Chosen>();
    const app = render(h(App, { context, paint, shown, leave }), { exitOnCtrlC: false, patchConsole: false });
    // It rejects when something cannot be drawn.
    const chosen = await Promise.race([promise, app.waitUntilExit().then(() => "interrupted" as const)]);
    app.rerender(null);
    app.unmount();
    return chosen;
  };
};

const App = ({ context, paint, shown, leave }: Props): ReactNode => {
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  const { stdout } = useStdout();
  useEffect(() => {
    stdout.on("resize", redraw);
    return () => void stdout.off("resize", redraw);
  }, [stdout]);
  const common = { context, paint, shown, redraw, columns: stdout.columns - gutter };
  const open = (opened: Shown["opened"]) => () => {
    shown.opened = opened;
    redraw();
  };
  const { opened } = shown;
  const keys = { q: () => leave("quit"), "ctrl-c": () => leave("interrupted"), escape: open(null) };
  if (opened === null) return h(FleetMenu, { ...common, keys, open });
  if ("remote" in opened) return h(RemoteMenu, { ...common, ...opened, keys, leave });
  return h(Menu, {
    key: opened.name,
    paint,
    title: `${oneLine(opened.name)}  local package  ${oneLine(opened.path)}`,
    faults: opened.error === null ? [] : [opened.error],
    sections: [actionSection(packageActions(context, opened), common, leave)],
    keys,
    hints,
  });
};

const hints = "1-N choose  / filter  r refresh  Esc back  q quit";

type Common = Omit<Props, "leave"> & { redraw: () => void; columns: number };
type Keys = { keys: Record<string, () => void> };

/** Does the work now, and again a while after it has ended. Returns what does it at once. */
const useRepeated = (work: (signal: AbortSignal) => Promise<void>, everyMs: number): (() => void) => {
  const [round, again] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    const stop = new AbortController();
    void (async () => {
      while (!stop.signal.aborted) {
        await work(stop.signal);
        await pause(everyMs, stop.signal);
      }
    })();
    return () => stop.abort();
  }, [round]);
  return again;
};

type FleetProps = Common & Keys & { open: (opened: Shown["opened"]) => () => void };

/** Instances, then local agent packages. */
const FleetMenu = ({ context, paint, shown, redraw, columns, keys, open }: FleetProps): ReactNode => {
  const refresh = useRepeated(async (signal) => {
    const [found, local] = await Promise.allSettled([context.fleet.list(signal), context.local()]);
    if (signal.aborted) return;
    if (found.status === "fulfilled") shown.remotes = withLost(found.value, shown.remotes ?? []);
    if (local.status === "fulfilled") shown.packages = local.value;
    const failed = [found, local].filter((each) => each.status === "rejected");
    shown.faults = [
      ...(found.status === "fulfilled" && found.value.remotes.length === 0 ? found.value.faults : []),
      ...failed.map(({ reason }) => messageOf(reason)),
    ];
    redraw();
  }, 3000);
  const { remotes, packages, faults } = shown;
  const refreshAll = (): void => {
    shown.remotes = remotes?.filter(({ state }) => state !== "unreachable") ?? null;
    refresh();
  };
  const fault = (text: string | null): ReactNode =>
    text !== null && h(Text, { wrap: "truncate-end" }, paint("yellow", oneLine(text)));
  const remoteTable = tableOf(remotes ?? [], remoteColumns(paint, columns), { paint, columns }, (remote) => ({
    id: `remote ${remote.name}`,
    words: `${remote.name} ${remote.kind} ${remote.state}`,
    detail: fault(remote.fault),
    choose: open({ remote, conversation: crypto.randomUUID() }),
  }));
  const packageTable = tableOf(packages, packageColumns, { paint, columns }, (local) => ({
    id: `package ${local.name}`,
    words: `${local.name} local ${local.description ?? ""}`,
    detail: fault(local.error),
    choose: open(local),
  }));
  const found = `${counted(remotes?.length ?? 0, "instance")}, ${counted(packages.length, "local package")}`;
  return h(Menu, {
    key: "fleet",
    paint,
    title: `svc agents  ${remotes === null ? "looking for instances" : found}`,
    faults,
    sections: [remoteTable, packageTable],
    keys: { ...keys, r: refreshAll },
    hints: "1-N open  / filter  r refresh  q quit",
  });
};

/** An instance that is not listed any more is shown as lost, until the user refreshes. */
const withLost = (
  { remotes, faults }: Awaited<ReturnType<Fleet["list"]>>,
  before: readonly Remote[],
): Remote[] => {
  const fault = faults.at(-1) ?? "It is not listed any more: it was stopped, or is lost";
  const lost = before.filter(({ name }) => !remotes.some((remote) => remote.name === name));
  return [...remotes, ...lost.map((remote) => ({ ...remote, state: "unreachable" as const, fault }))];
};

const tableOf = <Row>(
  rows: readonly Row[],
  columns: Column<Row>[],
  layout: { paint: Paint; columns: number },
  entryOf: (row: Row) => Omit<Entry, "line">,
): Section => {
  const [heading = "", ...lines] = table(rows, columns, layout);
  return { heading, entries: rows.map((row, index) => ({ ...entryOf(row), line: lines[index] ?? "" })) };
};

const stateColours = { ready: "green", draining: "yellow", unreachable: "red" } as const;

/** What matters most comes first: a narrow terminal cuts the rest. */
const remoteColumns = (paint: Paint, columns: number): Column<Remote>[] => [
  ["INSTANCE", ({ name }) => cut(oneLine(name), Math.max(12, Math.floor(columns / 2.5)))],
  ["STATE", ({ state }) => paint(stateColours[state], state)],
  ["JOBS", ({ instance }) => (instance ? `${instance.running}/${instance.max_parallel_jobs}` : "–")],
  ["QUEUE", ({ waiting }) => String(waiting ?? "–")],
  ["TURNS", ({ instance }) => String(instance?.turns ?? "–")],
  ["KIND", ({ kind }) => kind],
  ["VERSION", ({ instance }) => oneLine(instance?.version ?? "–")],
];

const packageColumns: Column<LocalAgent>[] = [
  ["LOCAL PACKAGE", ({ name }) => oneLine(name)],
  ["", ({ description }) => oneLine(description ?? "")],
];

const actionSection = (
  actions: { name: string; about: string; run: Action["run"] }[],
  { paint, columns }: Common,
  leave: Props["leave"],
): Section =>
  tableOf(
    actions,
    [
      ["ACTION", ({ name }) => name],
      ["", ({ about }) => paint("dim", about)],
    ],
    { paint, columns },
    ({ name, about, run }) => ({
      id: name,
      words: `${name} ${about}`,
      choose: () => leave({ title: name, run }),
    }),
  );

type Look = { load: string; jobs: Job[]; agents: string[]; client: Client };

type RemoteProps = Common & Keys & { remote: Remote; conversation: string; leave: Props["leave"] };

/** An instance: what can be done with it, and the jobs that it runs. */
const RemoteMenu = ({ remote, conversation, leave, keys, ...common }: RemoteProps): ReactNode => {
  const { context, paint, shown, columns } = common;
  const [look, setLook] = useState<Look | null>(null);
  const [fault, setFault] = useState(remote.fault);
  const refresh = useRepeated(async (signal) => {
    try {
      await using reached = await context.fleet.reach(remote, signal);
      for (; !signal.aborted; await pause(2000, signal)) {
        setLook(await lookAt(remote, reached.client, signal));
        setFault(null);
      }
    } catch (error) {
      if (!signal.aborted) setFault(messageOf(error));
    }
  }, 2000);
  const name = oneLine(remote.name);
  const hasPackage = shown.packages.some((local) => look?.agents.includes(local.name));
  const jobs = look?.jobs ?? [];
  const [heading = "", ...lines] = jobTable(jobs, { paint, columns, now: Date.now() }).split("\n");
  const running = jobs.map((job, index) => ({
    id: job.id,
    words: job.task.slice(0, 2000),
    line: lines[index] ?? "",
    detail: waitingLine(job)
      ? h(Text, { wrap: "truncate-end" }, paint("magenta", waitingLine(job) ?? ""))
      : // So many streams, and no more.
        look !== null && index < 4 && h(LastLine, { client: look.client, job, paint }),
    choose: () => leave(followAction(context, remote, job.id)),
  }));
  return h(Menu, {
    key: remote.name,
    paint,
    title: `${name}  ${remote.kind}  ${fault === null ? (look?.load ?? "") : paint("red", "unreachable")}`,
    faults: fault === null ? [] : [fault],
    sections: [
      actionSection(remoteActions(context, remote, { conversation, hasPackage }), common, leave),
      { heading, entries: running },
    ],
    keys: { ...keys, r: refresh },
    hints,
  });
};

const lookAt = async (remote: Remote, client: Client, signal: AbortSignal): Promise<Look> => {
  const [{ queue, instances, answered_by: self }, { jobs }, models] = await Promise.all([
    client.list_instances({}, { signal }),
    client.list_jobs({ status: "running", limit: 100 }, { signal }),
    remote.kind === "agent" ? client.chatModels({ signal }) : [],
  ]);
  const found = instances.find(({ name }) => name === self);
  const own = found && `${found.running}/${found.max_parallel_jobs} jobs, ${found.turns} turns, `;
  return {
    load: `${found?.draining === true ? "draining, " : ""}${own ?? ""}${queue.waiting} queued`,
    jobs: jobs.filter((job) => job.pod_name === (remote.instance?.name ?? job.pod_name)),
    agents: models.map(({ id }) => id),
    client,
  };
};

const LastLine = ({ client, job, paint }: { client: Client; job: Job; paint: Paint }): ReactNode => {
  const [text, setText] = useState("");
  const latest = useRef(client);
  latest.current = client;
  useRepeated(async (signal) => {
    const narration = createNarration(Date.parse(job.created_at));
    try {
      for await (const event of latest.current.events(job.id, { signal, patienceMs: 0 })) {
        const done = narration.add(event);
        const row = narration.openRow() ?? done.findLast((each) => each.text !== "");
        if (row !== undefined) setText(row.text.slice(-500));
      }
    } catch {
      // The next try tells more, or the instance's own fault does.
    }
  }, 2000);
  return h(Text, { wrap: "truncate-start" }, paint("dim", oneLine(text)));
};
