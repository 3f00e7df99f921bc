import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { openKv } from "../../test/kv.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { inFiles, inKv, requireFormat } from "./format.ts";

let redis: TestRedis;
beforeAll(async () => void (redis = await startRedis()));

test.each([
  ...["worktrees", "conversations", "completions", "files"].map((name) => join(name, "one.json")),
  `${sampleRecord().id}.json`,
])("%s in a directory without a number is a record", async (file) => {
  const directory = await temporaryDirectory();
  await requireFormat(inFiles(directory), { mark: false });
  await mkdir(join(directory, file, ".."), { recursive: true });
  await writeFile(join(directory, file), "{}");
  const place = inFiles(directory);
  await expect(requireFormat(place, { mark: true })).rejects.toThrow("has records and no format number");
  expect(await place.read()).toBeNull();
});

test.each(["all", "prepared", "completions"])(
  "so are those of the index %s of a key-value store",
  async (index) => {
    const kv = await openKv(redis.url);
    const place = inKv(kv);
    await kv.client.set("other:job:1", "of another program");
    await requireFormat(place, { mark: false });
    expect(await place.read()).toBeNull();
    await kv.client.zadd(kv.jobKey(index), 0, "1767225600000_one");
    await expect(requireFormat(place, { mark: true })).rejects.toThrow("has records and no format number");
    expect(await place.read()).toBeNull();
  },
);
