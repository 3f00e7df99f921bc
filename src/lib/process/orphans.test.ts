import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { afterEach, expect, test } from "vitest";
import { until } from "../../../test/until.ts";
import { identify, isAlive, type ProcessIdentity } from "./identity.ts";
import { killOrphans } from "./orphans.ts";
import { sweep } from "./sweep.ts";
import { findMarked } from "../../../test/processes.ts";

const forever = "while :; do sleep 0.1; done";
/** Ignored signals stay ignored in children. */
const deaf = "trap '' TERM";

/** Each prints `up` when it is ready for the test. */
const started: ChildProcess[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill("SIGKILL");
});

const newMarker = () => ({ name: "SERVICE_JOB_ID", value: randomUUID() });

const start = async (
  env: Record<string, string>,
  script = `echo up; ${forever}`,
): Promise<ProcessIdentity> => {
  const child = spawn("/bin/sh", ["-c", script], {
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      PATH: process.env["PATH"],
      ...env,
    },
  });
  started.push(child);
  await once(child.stdout!, "data");
  return until(() => identify(child.pid!));
};

test("the recorded process, its group and its runaways are ended", async () => {
  const marker = newMarker();
  const env = { [marker.name]: marker.value };
  const identity = await start(
    env,
    `${deaf}; sh -c "${forever}" & setsid sh -c "${forever}" & echo up; ${forever}`,
  );
  await until(async () => (await findMarked(marker)).length >= 3);
  const report = await killOrphans(identity, marker, { graceSeconds: 0.1 });
  expect(report).toMatchObject({ survivors: [] });
  expect(await findMarked(marker)).toEqual([]);
});

test("a later process with the pid is not touched, nor one of another boot", async () => {
  const identity = await start({});
  for (const stale of [
    { ...identity, start_time: String(Number(identity.start_time) - 1) },
    { ...identity, boot_id: "another boot" },
  ]) {
    expect(await killOrphans(stale, newMarker(), { graceSeconds: 0 })).toEqual({
      swept: 0,
      survivors: [],
      hidden: [],
    });
  }
  expect(await isAlive(identity)).toBe(true);
});

test("runaways are ended although the recorded process has ended", async () => {
  const marker = newMarker();
  const runaway = await start({ [marker.name]: marker.value });
  const gone = { pid: 2 ** 22 - 2, start_time: "1", boot_id: runaway.boot_id };
  expect(await killOrphans(gone, marker, { graceSeconds: 0 })).toMatchObject({ survivors: [] });
  expect(await killOrphans(null, marker, { graceSeconds: 0 })).toMatchObject({ swept: 0 });
  expect(await isAlive(runaway)).toBe(false);
});

test("the sweep takes exactly NAME=VALUE: not a longer value, not a longer name, not a part of another variable", async () => {
  const marker = newMarker();
  const { name, value } = marker;
  const strangers = await Promise.all(
    [
      { [name]: `${value}0` },
      { [name]: value.slice(0, -1) },
      { [`X${name}`]: value },
      { OTHER: `x ${name}=${value}` },
      { OTHER: `${name}=${value}` },
    ].map((env) => start(env)),
  );
  const own = await start({ FIRST: "1", [name]: value, LAST: "1" });
  expect(await sweep(marker)).toMatchObject({ survivors: [] });
  expect(await isAlive(own)).toBe(false);
  expect(await Promise.all(strangers.map(isAlive))).toEqual(strangers.map(() => true));
});
