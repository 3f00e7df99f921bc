import { cp } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openKv } from "../kv.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { install, makePackage, pack } from "./installed.ts";

test("with a shared store: the trial writes nothing to it, and the instance is drained before it is stopped", async () => {
  const redis = await startRedis();
  const { client } = await openKv(redis.url);
  const installed = await install(await pack(await makePackage("0.1.0")));
  const other = join(installed.modules, "svc-agent.other");
  const env = { KV_URL: redis.url, SERVICE_POD_NAME: "one", SERVICE_DRAIN_TIMEOUT: "60" };
  const serve = () => startService({ home: installed.home, program: installed.program, env });
  const first = await serve();
  const { job } = await first.client.run_task({ task: "scenario: noop" });
  await until(async () => (await first.client.get_job({ job_id: job.id })).job.status === "succeeded");
  await first.stop();

  const content = async (): Promise<Map<string, string | undefined>> => {
    const keys = (await client.keys("*")).toSorted();
    const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
    return new Map(keys.map((key, at) => [key, values[at]?.toString("hex")]));
  };
  const before = await content();
  await cp(
    await makePackage("0.0.9", {
      replace: ["return checkRecord(JSON.parse(text), id)", `return "it has another shape"`],
    }),
    other,
    {
      recursive: true,
    },
  );
  const refused = await installed.rollback(env).ended;
  expect(refused.stderr).toContain("(succeeded: 0 instead of 1)");
  for (const [key, value] of await content()) expect([key, value]).toEqual([key, before.get(key)]);

  await cp(await makePackage("0.2.0"), other, { recursive: true });
  const second = await serve();
  const { job: atWork } = await second.client.run_task({ task: `scenario: noop {"ms": 1500}` });
  await until(async () => (await second.client.get_job({ job_id: atWork.id })).job.status === "running");
  const { code, stdout, stderr } = await installed.rollback(env).ended;
  expect(stderr).toMatch(/Waiting for (1 job|one to take no new jobs)[^]*Stopping the service/);
  expect(JSON.parse(stdout)).toMatchObject({ from: "0.1.0", to: "0.2.0" });
  expect(code).toBe(0);
  const third = await serve();
  expect(third.output.stdout).toContain("svc 0.2.0 listening");
  const { status, attempt } = (await third.client.get_job({ job_id: atWork.id })).job;
  expect([status, attempt]).toEqual(["succeeded", 1]);
  await third.stop();
});
