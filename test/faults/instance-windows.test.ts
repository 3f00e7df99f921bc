import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openWindows, windows, type Windows } from "./instance-windows.ts";
import { createWorld, type Instance, type World } from "./instance-world.ts";

let world: World;
let held: Windows;
let one: Instance;

beforeAll(async () => {
  const directory = await temporaryDirectory();
  const { url: kvUrl } = await startRedis();
  world = await createWorld({ directory, kvUrl, prefix: "windows", names: ["one"] });
  one = world.instances[0] ?? expect.fail();
  held = await openWindows(join(directory, "windows"), kvUrl);
  one.env = held.env;
  await world.start(one);
});

test.each([...windows])(
  "an instance is held up %s, is killed there, and its next start settles the job",
  async (window) => {
    const isSettling = window === "inside settling";
    const done = isSettling ? join(world.directory, "never") : undefined;
    const submission = {
      task: `scenario: paced ${JSON.stringify({ steps: 2, ms: 1, own: true, until: done })}`,
      repo_url: world.remote.path,
    };
    const { job } = await world.ask(Math.random, (client) => client.run_task(submission));
    if (isSettling) {
      const notes = async () => (await world.notes()).filter((note) => note.job === job.id);
      await until(async () => (await notes()).some(({ committed }) => committed));
      await world.kill(one);
    }
    const met = held.hold(window, 60);
    if (isSettling) await world.start(one);
    expect(await met).toBe(true);
    expect((await world.record(job.id))?.status).not.toBe("succeeded");
    await world.kill(one);

    await world.start(one);
    const record = await until(async () => {
      const found = await world.record(job.id);
      return found?.ended_at !== null && found?.unsettled === false ? found : null;
    });
    expect(["succeeded", "failed"]).toContain(record.status);
  },
);
