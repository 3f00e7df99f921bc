import { join } from "node:path";
import { expect, test } from "vitest";
import { startRedis } from "../redis.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openWindows, windows } from "./instance-windows.ts";
import { createWorld } from "./instance-world.ts";

test.each([...windows])(
  "an instance is held up %s, is killed there, and its next start settles the job",
  async (window) => {
    const directory = await temporaryDirectory();
    const { url: kvUrl } = await startRedis();
    const world = await createWorld({ directory, kvUrl, prefix: "windows", names: ["one"] });
    const [one] = world.instances;
    if (one === undefined) throw new Error("there is no instance");
    const { env, hold } = await openWindows(join(directory, "windows"), kvUrl);
    one.env = env;
    const { client } = await world.start(one);
    const isSettling = window === "inside settling";
    const done = isSettling ? join(directory, "never") : undefined;
    const { job } = await client.run_task({
      task: `scenario: paced ${JSON.stringify({ steps: 2, ms: 1, own: true, until: done })}`,
      repo_url: world.remote.path,
    });
    if (isSettling) {
      await until(async () => (await world.notes()).some(({ committed }) => committed), { seconds: 60 });
      await world.kill(one);
    }
    const met = hold(window, 60);
    if (isSettling) await world.start(one);
    expect(await met).toBe(true);
    expect((await world.record(job.id))?.status).not.toBe("succeeded");
    await world.kill(one);

    await world.start(one);
    await until(async () => ["succeeded", "failed"].includes((await world.record(job.id))?.status ?? ""), {
      seconds: 60,
    });
    await until(async () => (await world.record(job.id))?.unsettled === false, { seconds: 60 });
  },
  240_000,
);
