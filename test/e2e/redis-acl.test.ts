import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";

const page = join(import.meta.dirname, "../../docs/operate/instances.md");

test("with the rights that the page names, jobs run, are cancelled from another instance, and nothing is refused", async () => {
  const rule = /^ACL (SETUSER svc .*)$/m.exec(await readFile(page, "utf8"))?.[1] ?? "";
  expect(rule).toContain(">PASSWORD");
  const redis = await startRedis();
  const admin = new Redis(redis.url);
  await admin.call("ACL", ...rule.split(" "));
  const KV_URL = redis.url.replace("redis://", "redis://svc:PASSWORD@");
  const [one, other] = await Promise.all(
    ["a", "b"].map((name) => startService({ env: { KV_URL, SERVICE_POD_NAME: name } })),
  );
  if (one === undefined || other === undefined) throw new Error("no service");
  expect(await asks(one).run({ task: "Do the default thing" })).toMatchObject({ status: "succeeded" });
  const { id } = await asks(one).submit({ task: "scenario: hang" });
  const isBegun = (job: Job): boolean => job.stages.some(({ stage }) => stage === "agent_started");
  const { pod_name: runs } = await asks(one).when(id, isBegun, "to begin");
  await (runs === "a" ? other : one).client.cancel_job({ job_id: id });
  expect(await asks(one).ended(id)).toMatchObject({ status: "cancelled" });
  const refused = (await admin.call("ACL", "LOG")) as unknown[];
  expect(refused).toEqual([]);
  admin.disconnect();
  for (const { output } of [one, other]) expect(output.stdout + output.stderr).not.toMatch(/NOPERM/);
});
