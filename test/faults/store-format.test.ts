import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
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
  `this program's format is 3: drain it with the version that made it, or start with an empty ${empty}`;

test("a new directory gets the format number; it is refused with another one, or with records and none", async () => {
  const service = await startService();
  await service.stop();
  const directory = join(service.home, ".service", "jobs");
  const file = join(directory, ".format");
  expect(await readFile(file, "utf8")).toBe("3\n");
  const refused = (has: string) => ({
    code: 1,
    said: `svc: The store in ${directory} has ${has}, ${advice("directory (SERVICE_JOBS_DIR)")}`,
  });
  await writeFile(file, "1\n");
  expect(await serve({ HOME: service.home })).toEqual(refused("the format 1"));
  await rm(file);
  const { id, json } = old();
  await writeFile(join(directory, `${id}.json`), json);
  expect(await serve({ HOME: service.home })).toEqual(refused("records and no format number"));
  const { code, stdout } = await svc(["doctor", "--offline"], { env: { HOME: service.home } });
  expect({ code, stdout }).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^Store +fault: The store in/m),
  });
  await expect(readFile(file)).rejects.toMatchObject({ code: "ENOENT" });
});

test.each(["worktrees", "conversations", "completions", "files"])(
  "records in %s count, too",
  async (name) => {
    const home = await temporaryDirectory();
    const directory = join(home, ".service", "jobs", name);
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, "one.json"), "{}");
    expect((await serve({ HOME: home })).said).toContain("has records and no format number");
  },
);

test("the same holds for a key-value store, for every command that opens it", async () => {
  const { url } = await startRedis();
  const kv = await openKv(url, "service");
  const env = { HOME: await temporaryDirectory(), KV_URL: url, KV_KEY_PREFIX: "service" };
  await kv.client.set("other:job:1", "of another program");
  const service = await startService({ env });
  await service.stop();
  expect(await kv.client.get("service:format")).toBe("3");
  const refused = (has: string) => ({
    code: 1,
    said: `svc: The key-value store (KV_KEY_PREFIX service) has ${has}, ${advice("one (KV_URL, or another KV_KEY_PREFIX)")}`,
  });
  await kv.client.set("service:format", "1");
  expect(await serve(env)).toEqual(refused("the format 1"));
  await kv.client.del("service:format");
  const { id, json } = old();
  await kv.client.hset(kv.jobKey("job", id), { json, rev: "1" });
  await kv.client.zadd(kv.jobKey("all"), 0, `1767225600000_${id}`);
  expect(await serve(env)).toEqual(refused("records and no format number"));
  const drained = await svc(["drain"], { env });
  expect({ code: drained.code, said: drained.stderr.trim() }).toEqual(
    refused("records and no format number"),
  );
  expect((await svc(["doctor", "--offline"], { env })).stdout).toMatch(/^Store +fault: The key-value store/m);
  expect(await kv.client.exists("service:format")).toBe(0);
});
