import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { writeFileAtomic } from "../src/lib/atomic-file.ts";
import { sampleRecord } from "../test/ports/job-record-sample.ts";

/** A bare Hono route that makes the same durable write as a submission: the baseline of `bench/submissions.ts`. */
const directory = process.argv[2] ?? ".";
const app = new Hono().post("/jobs", async (context) => {
  const { task } = await context.req.json<{ task: string }>();
  const record = sampleRecord({ id: randomUUID(), task });
  await writeFileAtomic(join(directory, `${record.id}.json`), JSON.stringify(record));
  return context.json({ success: true, job: record });
});
serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => {
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`);
});
