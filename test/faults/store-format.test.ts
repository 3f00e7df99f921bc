import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { svc } from "../cli/run-svc.ts";
import { openKv } from "../kv.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";
import { startRedis } from "../redis.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/** As commit 935a1b0 stored it: each record had a format, the store had none. */
const old = (): { id: string; json: string } => {
  const record = sampleRecord();
  return { id: record.id, json: JSON.stringify({ ...record, format: 2 }) };
};

const serve = async (env: Record<string, string>) => {
  const { code, stderr } = await svc(["serve", "--port", "0"], {
    env: { SERVICE_LOG_LEVEL: "error", ...env },
  });
  return { code, said: stderr.trim() };
};
const advice = (empty: string): string =>
  `this program's format is 4: drain it with the version that made it, or start with an empty ${empty}`;

test("a new directory gets the format number; it is refused with another one, or with records and none", async () => {
  const service = await startService();
  await service.stop();
  const directory = join(service.home, ".service", "jobs");
  const file = join(directory, ".format");
  expect(await readFile(file, "utf8")).toBe("4\n");
  const env = { HOME: service.home };
  await writeFile(file, "1\n");
  expect(await serve(env)).toEqual({
    code: 1,
    said: `svc: The store in ${directory} has the format 1, ${advice("directory (SERVICE_JOBS_DIR)")}`,
  });
  await rm(file);
  const { id, json } = old();
  await writeFile(join(directory, `${id}.json`), json);
  const { code, stdout } = await svc(["doctor", "--offline"], { env });
  expect({ code, stdout }).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^Store +fault: The store in/m),
  });
  await expect(readFile(file)).rejects.toMatchObject({ code: "ENOENT" });
});

test("the same holds for a key-value store, for every command that opens it", async () => {
  const { url } = await startRedis();
  const kv = await openKv(url, "service");
  const env = { HOME: await temporaryDirectory(), KV_URL: url, KV_KEY_PREFIX: "service" };
  const { id, json } = old();
  await kv.client.hset(kv.jobKey("job", id), { json, rev: "1" });
  await kv.client.zadd(kv.jobKey("all"), 0, `1767225600000_${id}`);
  const refused = {
    code: 1,
    said: `svc: The key-value store (KV_KEY_PREFIX service) has records and no format number, ${advice("one (KV_URL, or another KV_KEY_PREFIX)")}`,
  };
  expect(await serve(env)).toEqual(refused);
  const drained = await svc(["drain"], { env });
  expect({ code: drained.code, said: drained.stderr.trim() }).toEqual(refused);
  expect((await svc(["doctor", "--offline"], { env })).stdout).toMatch(/^Store +fault: The key-value store/m);
  expect(await kv.client.exists("service:format")).toBe(0);
});
