import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { fromBundle, lockFile, locksWork, LockTimeoutError } from "./file-lock.ts";
import { isAlive, identify } from "./process/identity.ts";

const never = new AbortController().signal;
const lockPath = async (): Promise<string> => join(await temporaryDirectory(), "x.lock");

test("callers in one process get the lock one at a time, in order", async () => {
  const path = await lockPath();
  const order: number[] = [];
  let inside = 0;
  const visit = async (number: number): Promise<void> => {
    await using lock = await lockFile({ path, timeoutSeconds: 20, signal: never });
    expect(lock.fd).toBeGreaterThan(0);
    expect(++inside).toBe(1);
    await new Promise((resolve) => setImmediate(resolve));
    order.push(number);
    inside -= 1;
  };
  await Promise.all(Array.from({ length: 20 }, (_, number) => visit(number)));
  expect(order).toEqual(Array.from({ length: 20 }, (_, number) => number));
});

test("waiting ends with a time-out, which does not block the next caller", async () => {
  const path = await lockPath();
  const held = await lockFile({ path, timeoutSeconds: 1, signal: never });
  await expect(lockFile({ path, timeoutSeconds: 0.05, signal: never })).rejects.toThrow(LockTimeoutError);
  const next = lockFile({ path, timeoutSeconds: 5, signal: never });
  await held.release();
  await (await next).release();
});

test("waiting ends when the signal aborts", async () => {
  const path = await lockPath();
  await using _held = await lockFile({ path, timeoutSeconds: 1, signal: never });
  const stop = new AbortController();
  const waiting = lockFile({ path, timeoutSeconds: 60, signal: stop.signal });
  stop.abort(new Error("no longer wanted"));
  await expect(waiting).rejects.toThrow("no longer wanted");
});

test("a child of a killed holder keeps the lock until it ends", async () => {
  const path = await lockPath();
  const holder = spawn(process.execPath, [join(import.meta.dirname, "fixtures/lock-holder.ts"), path, "60"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line]: Buffer[] = await once(holder.stdout, "data");
  const childPid = Number(line?.toString());
  const child = await identify(childPid);
  holder.kill("SIGKILL");
  await once(holder, "exit");

  await expect(lockFile({ path, timeoutSeconds: 0.2, signal: never })).rejects.toThrow(LockTimeoutError);
  expect(child !== null && (await isAlive(child))).toBe(true);
  process.kill(childPid, "SIGKILL");
  await until(() =>
    lockFile({ path, timeoutSeconds: 0.2, signal: never }).then((lock) => lock.release().then(() => true)),
  );
});

test("the native module is found beside a bundle", async () => {
  const directory = await temporaryDirectory();
  const packaged = dirname(createRequire(import.meta.url).resolve("fs-native-extensions"));
  await mkdir(join(directory, "dist"));
  await symlink(join(packaged, "prebuilds"), join(directory, "dist", "prebuilds"));
  const { tryLock } = fromBundle(join(directory, "dist"));
  const path = join(directory, "x.lock");
  await using held = await lockFile({ path, timeoutSeconds: 1, signal: never });
  expect(tryLock(held.fd)).toBe(true);
  expect(await locksWork(join(directory, "y.lock"))).toBe(true);
});
