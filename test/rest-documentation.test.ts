import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { statusOf } from "../src/contract/errors.ts";
import { operations } from "../src/contract/operations.ts";
import { createMetrics } from "../src/telemetry/metrics.ts";

const page = await readFile(join(import.meta.dirname, "../docs/use/rest.md"), "utf8");

/** Those that only the transcript service has. */
const transcriptCodes = [
  "insufficient_scope",
  "session_not_found",
  "memory_not_found",
  "plan_not_found",
  "orchestrator_unavailable",
];

test("docs/use/rest.md has each code of failure in the row of its status, and none that there is not", () => {
  const rows = [...page.matchAll(/^\| (\d{3}(?:, \d{3})*) \| (.*) \|$/gm)];
  const documented = rows.flatMap(([, statuses = "", words = ""]) =>
    // What node refuses before there is a request has codes of other statuses.
    statuses === "408, 431"
      ? []
      : [...words.matchAll(/`([a-z_]+)`/g)].map(([, code]) => `${statuses} ${code}`),
  );
  const known = Object.entries(statusOf).filter(([code]) => !transcriptCodes.includes(code));
  const expected = known.map(([code, status]) => `${status} ${code}`);
  expect(documented.toSorted()).toEqual(expected.filter((row) => row !== "401 unauthorized").toSorted());
});

test("docs/use/rest.md has each metric of the service", async () => {
  const metrics = createMetrics({
    jobCounts: () =>
      Promise.resolve({ queued: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0, expired: 0 }),
    overview: () =>
      Promise.resolve({
        queue: { waiting: 0, running: 0, oldest_wait_seconds: null },
        lost: 0,
        recovered: 0,
        instances: [],
      }),
    maxParallel: 1,
    volumes: () => Promise.resolve([]),
    companions: () => Promise.resolve([]),
  });
  metrics.watch({ running: () => 0, chat: () => ({ turns: 0, processes: 0 }) });
  const { body } = await metrics.read();
  const names = [...body.matchAll(/^# TYPE (svc_\w+)/gm)].map(([, name = ""]) => name);
  expect(names.length).toBeGreaterThan(5);
  for (const name of names) expect(page).toContain(`\`${name}`);
});

test("docs/use/rest.md has each operation's method and path", () => {
  for (const { http } of Object.values(operations))
    expect(page).toContain(`| \`${http.method.toUpperCase()} ${http.path}\` |`);
});
