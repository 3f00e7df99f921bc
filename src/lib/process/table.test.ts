import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../../../test/until.ts";
import { sweep } from "./sweep.ts";
import { findMarked } from "../../../test/processes.ts";
import { visitMarked } from "./table.ts";

/** Ends the chain when the test was killed before it could. */
const bounded = 'N=$((${N:-0} + 1)); export N; [ "$N" -lt 30000 ] || exit;';

test.for([
  { what: "that keeps changing its program", script: `${bounded} exec sh -c "$SCRIPT"` },
  { what: "that forks and exits, again and again", script: `${bounded} setsid sh -c "$SCRIPT" & exit` },
])("no look that is sure misses a process $what, and it is ended", async ({ script }) => {
  const marker = { name: "SERVICE_JOB_ID", value: randomUUID() };
  const env = { PATH: process.env["PATH"], SCRIPT: script, [marker.name]: marker.value };
  spawn("/bin/sh", ["-c", script], { detached: true, stdio: "ignore", env });
  await until(async () => (await findMarked(marker)).length > 0);
  const looks: number[] = [];
  // One in a thousand met a process that was exiting, and its child was not listed yet.
  for (let look = 0; look < 300; look += 1) {
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
