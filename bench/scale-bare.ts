import { Worker } from "bullmq";
import { Redis } from "ioredis";
import { handWriter } from "./scale-records.ts";

/** A bare BullMQ worker whose jobs do nothing, or write their record by hand: what the engine is measured against. */
const [url = "", concurrency = "", records = ""] = process.argv.slice(2);
const connection = new Redis(url, { maxRetriesPerRequest: null });
const write = handWriter(connection);

const worker = new Worker<{ id: string }>(
  "bare",
  async ({ data: { id } }) => {
    if (records === "") return "done";
    await write(id, "queued", "running");
    await write(id, "running", "succeeded");
    return "done";
  },
  { connection, prefix: "{bare}", concurrency: Number(concurrency), removeOnComplete: { count: 0 } },
);
await worker.waitUntilReady();
process.stdout.write("ready\n");
