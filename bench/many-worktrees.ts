import { randomUUID } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import pLimit from "p-limit";
import type { Service } from "../test/service.ts";
import { git, makeRemoteIn } from "../test/remote.ts";
import { atMost, median, type Figure } from "./statistics.ts";
import { withDirectory, withService } from "./workbench.ts";

const worktrees = 500;
const refs = 5000;
const rounds = 11;

/** Worktrees at rest, and calls of their list. */
const [resting, calls] = [250, 40];

/** Preparing, listing and removing one of 500 worktrees of a clone with 5,000 salvage refs and job branches, against one of one. */
export const manyWorktrees = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const files = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`${n}.txt`, `${n}\n`]));
    const remote = await makeRemoteIn(directory, files);
    const env = { SERVICE_MAX_QUEUED_JOBS: "1000" };
    return await withService(directory, env, async (service) => {
      const { client } = service;
      const prepare = async (): Promise<string> => {
        const { worktree_id: id } = await client.prepare_worktree({ repo_url: remote.path });
        return id;
      };
      const first = await prepare();
      const before = await measure(service, prepare);
      const one = await listCost(service);
      const limit = pLimit(4);
      await Promise.all(Array.from({ length: resting - 1 }, () => limit(prepare)));
      const cost = await listCost(service);
      await Promise.all(Array.from({ length: worktrees - resting }, () => limit(prepare)));
      await addRefs(service);
      const after = await measure(service, prepare);
      await client.get_worktree({ worktree_id: first });
      const compare = (what: string, now: number, then: number, most: number): Figure => ({
        what: `${what}, ${worktrees} worktrees and ${refs.toLocaleString("en")} refs`,
        ours: `${now.toFixed(0)} ms`,
        baseline: `${then.toFixed(0)} ms (1 worktree, no refs)`,
        value: now / then,
        unit: "x",
        target: `≤ ${most} ×`,
        met: atMost(now / then, most),
      });
      return [
        compare("prepare a worktree (fetch and checkout)", after.prepare, before.prepare, 1.5),
        compare("remove a worktree", after.remove, before.remove, 1.5),
        {
          what: `list ${worktrees} worktrees, with size and whether pushed`,
          ours: `${after.list.toFixed(0)} ms`,
          baseline: `${before.list.toFixed(0)} ms (1 worktree)`,
          value: after.list / worktrees / before.list,
          unit: "x",
          target: "≤ 1 × each",
          met: atMost(after.list / worktrees / before.list, 1),
        },
        {
          what: `processor time of a list of ${resting} worktrees at rest`,
          ours: `${cost.toFixed(1)} ms a call`,
          baseline: `${one.toFixed(1)} ms (1 worktree)`,
          value: cost,
          unit: "ms",
          target: "≤ 50 ms",
          met: atMost(cost, 50),
        },
      ];
    });
  });

const measure = async ({ client }: Pick<Service, "client">, prepare: () => Promise<string>) => {
  const times = { prepare: [] as number[], remove: [] as number[], list: [] as number[] };
  const timed = async <Value>(of: keyof typeof times, work: () => Promise<Value>): Promise<Value> => {
    const begun = performance.now();
    const value = await work();
    times[of].push(performance.now() - begun);
    return value;
  };
  for (let round = 0; round < rounds; round += 1) {
    const id = await timed("prepare", prepare);
    const { removed } = await timed("remove", () => client.cleanup_worktrees({ paths: id }));
    if (removed !== 1) throw new Error(`the worktree ${id} was not removed`);
  }
  // What was measured a moment ago counts for 5 s.
  await sleep(6000);
  await timed("list", () => client.list_worktrees({}));
  return { prepare: median(times.prepare), remove: median(times.remove), list: median(times.list) };
};

/** Processor time of a call of the list when nothing has changed, ms, with that of the programs it starts. */
const listCost = async ({ client, pid }: Pick<Service, "client" | "pid">): Promise<number> => {
  const list = () => client.list_worktrees({ limit: 1000 });
  while ((await list()).worktrees.some(({ measured_at: at }) => at === null)) await sleep(1000);
  await sleep(6000);
  const before = await processorMs(pid);
  for (let call = 0; call < calls; call += 1) await list();
  return ((await processorMs(pid)) - before) / calls;
};

/** Of a process and of its children that have ended; ticks are hundredths of a second. */
const processorMs = async (pid: number): Promise<number> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.replace(/^.*\) /s, "").split(" ");
  return fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks) * 10, 0);
};

/** As jobs leave them: half salvage refs, half branches. */
const addRefs = async ({ home }: Pick<Service, "home">): Promise<void> => {
  const root = join(home, "service-repos");
  const key = (await readdir(root)).find((name) => /^[0-9a-f]{12}$/.test(name)) ?? "";
  const tip = await git(join(root, key, "repo.git"), "rev-parse", "refs/remotes/origin/main");
  const cache = join(root, key, "saved.git");
  await git(root, "init", "--quiet", "--bare", cache);
  await writeFile(join(cache, "objects/info/alternates"), `${join(root, key, "repo.git/objects")}\n`);
  for (let n = 0; n < refs; n += 1) {
    const id = randomUUID();
    const ref = n % 2 === 0 ? `refs/service/salvage/${id}` : `refs/heads/service/${id.slice(0, 8)}`;
    await git(cache, "update-ref", ref, tip);
  }
};
