import { randomUUID } from "node:crypto";
import { open, rename } from "node:fs/promises";
import { join } from "node:path";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { sampleRecord } from "../test/ports/job-record-sample.ts";

/** A bare Hono route that writes a record as durably as a submission does, by hand: the baseline of `bench/submissions.ts`. */
const directory = process.argv[2] ?? ".";
const app = new Hono().post("/jobs", async (context) => {
  const { task } = await context.req.json<{ task: string }>();
  const record = sampleRecord({ id: randomUUID(), task });
  const path = join(directory, `${record.id}.json`);
  await writeSynced(`${path}.tmp`, JSON.stringify(record));
  await rename(`${path}.tmp`, path);
  await sync(directory);
  return context.json({ success: true, job: record });
});

const writeSynced = async (path: string, data: string): Promise<void> => {
  await using file = await open(path, "wx", 0o600);
  await file.writeFile(data);
  await file.sync();
};

const sync = async (path: string): Promise<void> => {
  await using opened = await open(path, "r");
  await opened.sync();
};

serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => {
  process.stdout.write(`listening on http://127.0.0.1:${port}\n`);
});
