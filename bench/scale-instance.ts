import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { loadSettings } from "../src/config/settings.ts";
import { openOutcomeSpool } from "../src/jobs/outcomes.ts";
import { createWorker } from "../src/jobs/worker.ts";
import { createLog } from "../src/lib/log.ts";
import { createRedactor } from "../src/lib/redact.ts";
import { openStores } from "../src/main/stores.ts";

/** An instance's engine on the shared store, with an agent that does nothing. Settings come from the environment. */
const { settings } = loadSettings({ env: process.env, home: process.env["HOME"] ?? "/nonexistent" });
const log = createLog("error", (text) => text);
const epoch = randomUUID();
const stores = await openStores({ settings, epoch, log });
const { now } = stores;
const worker = createWorker({
  store: stores.jobs,
  events: stores.events,
  locks: stores.locks,
  spool: await openOutcomeSpool(join(settings.jobsDir, settings.podName), log),
  queue: stores.queue,
  jobEnds: stores.jobEnds,
  execute: async () => ({ kind: "succeeded", patch: { exit_code: 0, output: "done" } }),
  onEnded: () => undefined,
  instance: { podName: settings.podName, epoch },
  credential: { digest: "none", canChange: async () => false },
  settings,
  now,
  redact: createRedactor([]),
  log,
});
stores.queue.start(worker.work);
process.stdout.write("ready\n");
