import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { makeRemoteIn } from "../remote.ts";
import { fakeAgent } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { watchAgents } from "./partition-agents.ts";
import { createHosts } from "./partition-hosts.ts";
import { readJournal, runsIn } from "./store-journal.ts";
import { createStoreWorld, stubborn } from "./store-world.ts";

/** A git that takes its time to fetch while `flag` is there, in a directory to be put before the others on the PATH. */
const slowGit = async (directory: string) => {
  const [bin, flag] = [join(directory, "slow"), join(directory, "slow", "flag")];
  await mkdir(bin);
  const wait = `case " $* " in *" fetch "*|*" clone "*) while [ -e '${flag}' ]; do sleep 0.1; done;; esac`;
  const script = `#!/bin/sh\n${wait}\nPATH="\${PATH#*:}"\nexec git "$@"\n`;
  await writeFile(join(bin, "git"), script);
  await writeFile(flag, "");
  await chmod(join(bin, "git"), 0o755);
  return { path: `${bin}:${process.env["PATH"]}`, hurry: () => rm(flag) };
};

/** The fake agent, which here makes an end of what it does endlessly elsewhere. */
const hastyAgent = async (directory: string): Promise<string> => {
  const path = join(directory, "hasty-agent");
  await writeFile(path, `#!/bin/sh\nsed -u 's/: 400/: 4/' | '${fakeAgent}' "$@"\n`);
  await chmod(path, 0o755);
  return path;
};

/** What must not change once a job has ended. Its error says where its work is as soon as that is saved. */
const said = ({ status, attempt, failure_reason, ended_at, pod_name, output }: Job): Partial<Job> => {
  return { status, attempt, failure_reason, ended_at, pod_name, output };
};

test("an instance that is cut off from the store while it works: others continue its jobs or settle them, none is done twice, and healed it works on", async () => {
  const hosts = await createHosts(["a", "b"]);
  const directory = await temporaryDirectory();
  const world = await createStoreWorld({ kvUrl: hosts.kvUrl("a"), directory, names: [] });
  const { cluster, journal } = world;
  const git = await slowGit(directory);
  const slowPlace = join(directory, "slow-remote");
  await mkdir(slowPlace);
  const slow = await makeRemoteIn(slowPlace);

  const startOn = async (name: string, env: Record<string, string>) => {
    // Disks of their own too: the lock of a clone on a shared one is another matter.
    const more = { KV_URL: hosts.kvUrl(name), SERVICE_REPOS_ROOT: join(directory, name, "clones"), ...env };
    return await hosts.reach(name, await cluster.start(name, { under: hosts.enter(name), env: more }));
  };
  const a = await startOn("a", { PATH: git.path });
  const onA = asks(a);
  const twice = await onA.submit({ task: 'scenario: paced {"steps": 400, "ms": 350}', profile: stubborn });
  const once = await onA.submit({ task: 'scenario: paced {"steps": 400, "ms": 350}' });
  const early = await onA.submit({ task: "scenario: noop", repo_url: slow.path });
  await Promise.all([onA.speaking(twice.id), onA.speaking(once.id)]);
  await onA.when(early.id, ({ status }) => status === "running", "to be claimed");
  const again = await startOn("b", {
    SERVICE_AGENT_CLI_BINARY: await hastyAgent(directory),
    SERVICE_AGENT_SANDBOX_READ: dirname(fakeAgent),
  });
  const onB = asks(again);
  using agents = watchAgents(twice.id);
  await until(() => agents.lives.has(1), { what: "the agent to be seen" });

  await hosts.cut("a");
  expect(await onB.ended(early.id)).toMatchObject({ status: "succeeded", pod_name: "b", attempt: 2 });
  // Where it is cut off the clone was ended when its lock could not be kept any more: it never comes to an agent there.
  await git.hurry();
  expect(await onB.ended(once.id)).toMatchObject({
    status: "failed",
    failure_reason: "instance_lost",
    attempt: 1,
  });
  await onB.when(twice.id, ({ attempt, pod_name }) => attempt === 2 && pod_name === "b", "to go on at b");
  expect(await onB.ended(twice.id)).toMatchObject({ status: "succeeded", pod_name: "b", attempt: 2 });
  const [first, second] = [agents.lives.get(1), agents.lives.get(2)];
  expect(agents.together).toEqual([]);
  expect(second?.first).toBeGreaterThan(first?.last ?? Infinity);
  const before = await Promise.all([twice, once, early].map(async ({ id }) => said(await onB.get(id))));

  await hosts.heal("a");
  // It saves what it had, and says where.
  const saved = await onB.when(once.id, ({ salvage_ref }) => salvage_ref !== null, "to be saved");
  expect(said(saved)).toEqual(before[1]);
  const fresh: Job[] = [];
  await until(
    async () => {
      fresh.push(await onA.run({ task: "scenario: noop" }));
      return fresh.some(({ pod_name }) => pod_name === "a");
    },
    { what: "a to work on" },
  );
  expect(fresh.filter(({ status, attempt }) => status !== "succeeded" || attempt !== 1)).toEqual([]);
  const after = await Promise.all([twice, once, early].map(async ({ id }) => said(await onA.get(id))));
  expect(after).toEqual(before);
  const runs = await runsIn(journal);
  const counted = [twice, once, early].map(({ id }) => runs.get(id));
  const gap = (second?.first ?? 0) - (first?.last ?? 0);
  process.stdout.write(
    `cut off: runs ${JSON.stringify(counted)}, the agent was gone ${gap} ms before the next began\n`,
  );
  expect(counted).toEqual([2, 1, 1]);
  const given = (await readJournal(journal)).filter(({ job, pid }) => job === early.id && pid !== undefined);
  expect(given.map(({ attempt }) => attempt)).toEqual([2]);
}, 240_000);
