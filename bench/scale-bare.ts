import { Worker } from "bullmq";
import { Redis } from "ioredis";

/** A bare BullMQ worker whose jobs do nothing: what the engine is measured against. */
const [url = "", concurrency = ""] = process.argv.slice(2);
const connection = new Redis(url, { maxRetriesPerRequest: null });
const worker = new Worker("bare", async () => "done", {
  connection,
  prefix: "{bare}",
  concurrency: Number(concurrency),
  removeOnComplete: { count: 0 },
});
await worker.waitUntilReady();
process.stdout.write("ready\n");
