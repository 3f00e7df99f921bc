import { beforeAll, expect, test } from "vitest";
import { asks } from "../asks.ts";
import { cuttableWay } from "../cuttable.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { freeze, startPair, thaw } from "./instance-pair.ts";

type Way = Awaited<ReturnType<typeof cuttableWay>>;

/** Seconds within which what is to happen at once happens on a busy machine. */
const soon = 8;

const nothing = (): void => undefined;

/** What happens to the instance that runs the job before the cancel, and after it. */
const cases: {
  what: string;
  before: (way: Way, pid: number) => void;
  after: (way: Way, pid: number) => void;
}[] = [
  { what: "is well", before: nothing, after: nothing },
  { what: "loses its connections to the store meanwhile", before: (way) => way.interrupt(), after: nothing },
  { what: "is cut off from the store until later", before: (way) => way.cut(), after: (way) => way.mend() },
  { what: "is frozen until later", before: (_, pid) => freeze(pid), after: (_, pid) => thaw(pid) },
];

let way: Way;
let pair: Awaited<ReturnType<typeof startPair>>;
let two: Service;
const ids: string[] = [];
let deaf: string;

beforeAll(async () => {
  // Nobody is to be taken for lost by those who look after one that was away.
  const lease = "20";
  pair = await startPair({ slots: "5", lease, way: async (port) => (way = await cuttableWay(port)).port });
  const submission = { task: "scenario: ignore-term", repo_url: pair.world.remote.path };
  deaf = (await asks(pair.one).submit(submission)).id;
  for (const { id } of await Promise.all(cases.map(() => pair.begin()))) ids.push(id);
  await asks(pair.one).speaking(deaf);
  two = await pair.startTwo();
});

const untilGone = (id: string) =>
  until(() => pair.agents(id).length === 0, { seconds: soon, what: "the agent to be gone" });

test("an agent that is deaf to SIGTERM is ended too when its job is cancelled through another instance", async () => {
  await two.client.cancel_job({ job_id: deaf });
  await untilGone(deaf);
  expect(await asks(two).get(deaf)).toMatchObject({ status: "cancelled" });
});

test.each(cases.map((each, at) => ({ ...each, at })))(
  "a job that is cancelled through another instance is cancelled at once; its agent is ended and its work saved, when the one that runs it $what",
  async ({ at, before, after }) => {
    const id = String(ids[at]);
    before(way, pair.one.pid);
    const { job } = await two.client.cancel_job({ job_id: id });
    expect(job).toMatchObject({ status: "cancelled" });
    after(way, pair.one.pid);
    await untilGone(id);
    await until(async () => (await pair.world.record(id))?.unsettled === false, {
      what: "the work to be saved",
    });
    const ended = await asks(two).get(id);
    expect(ended).toMatchObject({ status: "cancelled", ended_at: job.ended_at, failure_reason: null });
    expect(await pair.saved(ended)).toContain(`${id.slice(0, 8)}-1-step-1.txt`);
  },
);

test("it works on after all that", async () => {
  expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
});
