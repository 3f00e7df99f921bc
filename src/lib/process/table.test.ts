import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../../../test/until.ts";
import { sweep } from "./sweep.ts";
import { findMarked } from "../../../test/processes.ts";
import { visitMarked } from "./table.ts";

test.for([
  { what: "that keeps changing its program", script: 'exec sh -c "$SCRIPT"' },
  { what: "that forks and exits, again and again", script: 'setsid sh -c "$SCRIPT" & exit' },
])("no look that is sure misses a process $what, and it is ended", async ({ script }) => {
  const marker = { name: "SERVICE_JOB_ID", value: randomUUID() };
  const env = { PATH: process.env["PATH"], SCRIPT: script, [marker.name]: marker.value };
  spawn("/bin/sh", ["-c", script], { detached: true, stdio: "ignore", env });
  await until(async () => (await findMarked(marker)).length > 0);
  const looks: number[] = [];
  for (let look = 0; look < 20; look += 1) {
    let found = 0;
    const missed = await visitMarked(marker, () => (found += 1));
    looks.push(found + missed.length);
  }
  const report = await sweep(marker);
  expect(looks).not.toContain(0);
  expect(report.survivors).toEqual([]);
  expect(report.swept).toBeGreaterThan(0);
  expect(await findMarked(marker)).toEqual([]);
});
