import { isBug } from "../cli/failure.ts";
import { oneLine } from "../view/sanitise.ts";
import type { Client } from "../client/client.ts";
import type { Remote } from "../fleet/fleet.ts";
import { pause } from "../lib/wait.ts";
import type { LocalAgent } from "../main/local-agents.ts";
import { actionSection } from "./actions.ts";
import { createJobList } from "./job-list.ts";
import { jobScreen } from "./job-screen.ts";
import { createList, listScreen, type List } from "./list.ts";
import { remoteActions } from "./remote-actions.ts";
import { createRepeat } from "./repeat.ts";
import type { Screen } from "./ui.ts";
import type { World } from "./world.ts";

const everyMs = 2000;
/** How often the jobs on the screen are compared with those that are followed. */
const followMs = 300;

/** An instance: what can be done with it, and its jobs. */
export const remoteScreen = (world: World, remote: Remote, packages: () => LocalAgent[]): Screen => {
  const { ui, fleet } = world;
  const self = remote.instance?.name ?? null;
  const conversation = crypto.randomUUID();
  let load = "";
  let fault = remote.fault;
  /** Agents that it answers for. */
  let agents: string[] = [];
  let client: Client | null = null;

  const openJob = (id: string): void => ui.open(jobScreen(world, remote, id));
  const jobs = createJobList({ ui, list: () => list, open: openJob });
  const list: List = createList(ui, () => [
    actionSection(
      ui,
      remoteActions(world, remote, {
        conversation,
        openJob,
        hasPackage: packages().some(({ name }) => agents.includes(name)),
      }),
    ),
    jobs.section(),
  ]);

  const look = async (asked: Client, signal: AbortSignal): Promise<void> => {
    const { queue, instances } = await asked.list_instances({}, { signal });
    const found = instances.find(({ name }) => name === self);
    const own = found && `${found.running}/${found.max_parallel_jobs} jobs, ${found.turns} turns, `;
    load = `${found?.draining === true ? "draining, " : ""}${own ?? ""}${queue.waiting} queued`;
    await jobs.refresh(asked, self, signal);
    if (remote.kind === "agent" && agents.length === 0)
      agents = (await asked.chatModels({ signal })).map(({ id }) => id);
    fault = null;
  };
  const refresh = createRepeat(async (signal) => {
    if (client !== null) await look(client, signal);
  }, everyMs);

  /** Looks again and again. Ends with the signal or the first failure. */
  const visit = async (signal: AbortSignal): Promise<void> => {
    await using reached = await fleet.reach(remote, signal);
    client = reached.client;
    const ended = new AbortController();
    const over = AbortSignal.any([signal, ended.signal]);
    const following = setInterval(() => jobs.follow(reached.client, over), followMs);
    try {
      await refresh.run(signal);
    } finally {
      clearInterval(following);
      ended.abort();
    }
  };

  const screen = listScreen(ui, {
    title: () =>
      `${oneLine(remote.name)}  ${remote.kind}  ${fault === null ? load : ui.paint("red", "unreachable")}`,
    list,
    faults: () => (fault === null ? [] : [fault]),
    hints: () => `1-N open  a ${jobs.isAll() ? "its running jobs" : "all jobs"}  / filter  Esc back  ? help`,
    keys: {
      r: refresh.now,
      a: () => {
        jobs.toggle();
        refresh.now();
      },
    },
    watch: async (signal) => {
      while (!signal.aborted) {
        await visit(signal).catch((error: unknown) => {
          if (isBug(error)) throw error;
          fault = error instanceof Error ? error.message : String(error);
        });
        ui.redraw();
        await pause(everyMs, signal);
      }
    },
  });
  return {
    ...screen,
    key: (key, more) => {
      const before = list.filter();
      screen.key(key, more);
      if (list.filter() !== before || (jobs.hasMore() && list.isNearEnd())) refresh.now();
    },
  };
};
