import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { cuttableWay } from "../cuttable.ts";
import { until } from "../until.ts";
import { freeze, startPair, thaw } from "./instance-pair.ts";

type Way = Awaited<ReturnType<typeof cuttableWay>>;

/** Seconds within which what is to happen at once happens on a busy machine. */
const soon = 8;

/** What happens to the instance that runs the job before the cancel, and after it. */
const cases: {
  what: string;
  before: (way: Way, pid: number) => void;
  after: (way: Way, pid: number) => void;
}[] = [
  { what: "is well", before: () => undefined, after: () => undefined },
  {
    what: "loses its connections to the store meanwhile",
    before: (way) => way.interrupt(),
    after: () => undefined,
  },
  { what: "is cut off from the store until later", before: (way) => way.cut(), after: (way) => way.mend() },
  { what: "is frozen until later", before: (_, pid) => freeze(pid), after: (_, pid) => thaw(pid) },
];

test.each(cases)(
  "a job that is cancelled through another instance is cancelled at once; its agent is ended and its work saved, when the one that runs it $what",
  async ({ before, after }) => {
    let way: Way | undefined;
    const pair = await startPair({ way: async (port) => (way = await cuttableWay(port)).port });
    const { id } = await pair.begin();
    const two = await pair.startTwo();
    if (way === undefined) throw new Error("there is no way to the store");
    before(way, pair.one.pid);
    const { job } = await two.client.cancel_job({ job_id: id });
    expect(job).toMatchObject({ status: "cancelled" });
    after(way, pair.one.pid);
    await until(() => pair.agents(id).length === 0, { seconds: soon, what: "the agent to be gone" });
    await until(async () => (await pair.world.record(id))?.unsettled === false, {
      what: "the work to be saved",
    });
    const ended = await asks(two).get(id);
    expect(ended).toMatchObject({ status: "cancelled", ended_at: job.ended_at, failure_reason: null });
    expect(await pair.saved(ended)).toContain(`${id.slice(0, 8)}-1-step-1.txt`);
    expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
  },
);

test("an agent that is deaf to SIGTERM is ended too when its job is cancelled through another instance", async () => {
  const pair = await startPair();
  const job = await asks(pair.one).submit({
    task: "scenario: ignore-term",
    repo_url: pair.world.remote.path,
  });
  await asks(pair.one).speaking(job.id);
  const two = await pair.startTwo();
  await two.client.cancel_job({ job_id: job.id });
  await until(() => pair.agents(job.id).length === 0, { seconds: soon, what: "the agent to be gone" });
  expect(await asks(two).get(job.id)).toMatchObject({ status: "cancelled" });
  expect(await pair.works(pair.one)).toMatchObject({ status: "succeeded", pod_name: "one" });
});
