import { spawn } from "node:child_process";
import { readFile, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { afterFile } from "../../../test/cleanup.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import { loadSettings } from "../../config/settings.ts";
import { lockFile } from "../../lib/file-lock.ts";
import { lockPath } from "../instance-lock.ts";
import { findService, unitOf } from "./running-service.ts";

const signal = AbortSignal.timeout(60_000);

test("the holder of the lock is the service, and no stranger with the number that the lock names", async () => {
  const jobsDir = await temporaryDirectory();
  const { settings } = loadSettings({ env: { SERVICE_JOBS_DIR: jobsDir }, home: jobsDir });
  expect(await findService(settings, signal)).toBeNull();
  const path = lockPath(jobsDir);
  const url = "http://127.0.0.1:1";
  const publish = (pid = 0): Promise<void> => writeFile(path, JSON.stringify({ url, pid }));
  await publish(process.pid);
  // Left by a service that has ended.
  expect(await findService(settings, signal)).toBeNull();

  const holder = await lockFile({ path, timeoutSeconds: 60, signal });
  await publish(process.pid);
  expect(await findService(settings, signal)).toMatchObject({ url, process: { pid: process.pid } });
  const stranger = spawn("sleep", ["600"], { stdio: "ignore" });
  afterFile(() => stranger.kill("SIGKILL"));
  await publish(stranger.pid);
  await expect(findService(settings, signal)).rejects.toThrow(/cannot be stopped from here/);
  await holder.release();
});

test("who looks for the service follows no link and empties no file", async () => {
  const jobsDir = await temporaryDirectory();
  const { settings } = loadSettings({ env: { SERVICE_JOBS_DIR: jobsDir }, home: jobsDir });
  await writeFile(lockPath(jobsDir), "precious");
  expect(await findService(settings, signal)).toBeNull();
  const other = join(jobsDir, "other");
  await rename(lockPath(jobsDir), other);
  await symlink(other, lockPath(jobsDir));
  await expect(findService(settings, signal)).rejects.toThrow(/ELOOP/);
  expect(await readFile(other, "utf8")).toBe("precious");
});

test.each([
  ["0::/system.slice/svc.service\n", { name: "svc.service", ofUser: false }],
  [
    "0::/user.slice/user-7.slice/user@7.service/app.slice/svc.service\n",
    { name: "svc.service", ofUser: true },
  ],
  ["0::/user.slice/user-7.slice/session-3.scope\n", null],
  ["0::/user.slice/user-7.slice/user@7.service/app.slice/run-1.scope\n", null],
  ["0::/\n", null],
  ["", null],
])("the unit of a process in the cgroup %j is known", (cgroup, unit) => {
  expect(unitOf(cgroup)).toEqual(unit);
});
