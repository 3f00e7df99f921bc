import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLog } from "../lib/log.ts";
import { openFilesJobStore } from "../store/files/files-job-store.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createReadiness } from "./readiness.ts";

const roomy = { requireRoom: async () => undefined };
const log = createLog("silent", (text) => text);

test("a store that is away makes the service unready with its reason, and ready again when it is back", async () => {
  const directory = join(await temporaryDirectory(), "jobs");
  await mkdir(directory);
  const store = await openFilesJobStore(directory, log);
  let clock = 0;
  const closing = new AbortController();
  const ready = createReadiness({
    store,
    disks: roomy,
    isDraining: () => false,
    closing: closing.signal,
    now: () => new Date((clock += 1000)),
  });
  expect(await ready()).toEqual({ ready: true, reasons: [] });
  await rename(directory, `${directory}-away`);
  expect(await ready()).toEqual({ ready: false, reasons: [expect.stringContaining(directory)] });
  await rename(`${directory}-away`, directory);
  expect((await ready()).ready).toBe(true);
  closing.abort();
  expect(await ready()).toEqual({ ready: false, reasons: ["The service is shutting down"] });
});

test("however often it is asked, the store is looked at once a second", async () => {
  let looks = 0;
  const store = { check: async () => void (looks += 1) };
  const ready = createReadiness({
    store,
    disks: roomy,
    isDraining: () => false,
    closing: new AbortController().signal,
    now: () => new Date(5000),
  });
  await Promise.all(Array.from({ length: 100 }, () => ready()));
  expect(looks).toBe(1);
});
