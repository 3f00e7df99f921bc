import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { openKv } from "../../test/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { maxFileBytes, type TaskFile } from "../contract/run-options.ts";
import { createLog } from "../lib/log.ts";
import { openFilesRecords } from "./files-records.ts";
import { openRedisRecords } from "./redis-records.ts";
import { createTaskFiles, taskFilesKind, type TaskFiles } from "./task-files.ts";

const log = createLog("silent", (line) => line);
const now = (): Date => new Date();

const stores: (readonly [string, () => Promise<TaskFiles>])[] = [
  [
    "files",
    async () =>
      createTaskFiles(
        await openFilesRecords(taskFilesKind, { directory: await temporaryDirectory(), now, log }),
      ),
  ],
  ...redisKinds().map(
    ([name, url]) =>
      [
        name,
        async () =>
          createTaskFiles(openRedisRecords(taskFilesKind, { kv: await openKv(await url()), now, log })),
      ] as const,
  ),
];

test.each(stores)(
  "the files of a job are kept in %s, as many as there may be, until they are removed",
  async (_, open) => {
    const store = await open();
    const id = randomUUID();
    const content = Buffer.alloc(maxFileBytes, 7).toString("base64");
    const files: TaskFile[] = [{ name: "a.bin", content, encoding: "base64" }];
    expect(await store.get(id)).toBeNull();
    await store.remove(id);
    // A repeated submission stores them again.
    for (let time = 0; time < 2; time += 1) await store.put(id, files);
    // Not `toEqual`, which would print them.
    expect(JSON.stringify(await store.get(id)) === JSON.stringify(files)).toBe(true);
    await store.remove(id);
    expect(await store.get(id)).toBeNull();
  },
);
