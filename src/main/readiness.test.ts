import { mkdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { createLog } from "../lib/log.ts";
import { openFilesJobStore } from "../../test/open-stores.ts";
import { until } from "../../test/until.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createReadiness } from "./readiness.ts";

const roomy = {
  requireRoom: async () => undefined,
  volumes: async () => [
    { path: "/large", purpose: "jobs" as const, free_bytes: 2 ** 40, total_bytes: 2 ** 41 },
    { path: "/small", purpose: "worktrees" as const, free_bytes: 3 * 2 ** 29, total_bytes: 2 ** 41 },
  ],
};
const log = createLog("silent", (text) => text);

test("a store that is unreachable makes the service unready with its reason, and ready again when it is back", async () => {
  const directory = join(await temporaryDirectory(), "jobs");
  await mkdir(directory);
  const store = await openFilesJobStore(directory, log);
  let at = 0;
  let problem: string | null = null;
  const closing = new AbortController();
  const ready = createReadiness({
    store,
    disks: roomy,
    credentialProblem: () => problem,
    sandbox: { mode: "bwrap", warning: null },
    modesProblem: () => null,
    companions: async () => [],
    isDraining: () => false,
    closing: closing.signal,
    clock: () => (at += 1000),
  });
  expect(await ready()).toEqual({
    ready: true,
    reasons: [],
    companions: [],
    checks: [
      { name: "jobs", status: "ok", message: "New jobs are accepted" },
      { name: "store", status: "ok", message: "Jobs can be recorded" },
      { name: "disk", status: "ok", message: "1.5 GiB free at /small" },
      { name: "sandbox", status: "ok", message: "Each agent runs in namespaces of its own (bubblewrap)" },
      { name: "modes", status: "ok", message: "The service's directories have the modes of its start" },
      { name: "model", status: "ok", message: "A credential is set, or none is asked for" },
    ],
  });
  problem = "No model credential is set";
  expect(await ready()).toMatchObject({
    ready: false,
    reasons: [problem],
    checks: [
      { name: "jobs", status: "fault", message: `New jobs are refused: ${problem}` },
      {},
      {},
      {},
      {},
      {},
    ],
  });
  problem = null;
  await rename(directory, `${directory}-away`);
  expect(await ready()).toMatchObject({
    ready: false,
    reasons: [expect.stringContaining(directory)],
    companions: [],
  });
  await rename(`${directory}-away`, directory);
  expect((await ready()).ready).toBe(true);
  closing.abort();
  expect(await ready()).toMatchObject({ ready: false, reasons: ["The service is shutting down"] });
});

test("however often it is asked, the store is looked at once a second", async () => {
  let looks = 0;
  const store = { check: async () => void (looks += 1) };
  const ready = createReadiness({
    store,
    disks: roomy,
    credentialProblem: () => null,
    sandbox: { mode: "bwrap", warning: null },
    modesProblem: () => null,
    companions: async () => [],
    isDraining: () => false,
    closing: new AbortController().signal,
    clock: () => 5000,
  });
  await Promise.all(Array.from({ length: 100 }, () => ready()));
  expect(looks).toBe(1);
});

test("an answer is not kept longer because the machine's clock was set back", async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  onTestFinished(() => void vi.useRealTimers());
  let isAway = true;
  const store = {
    check: async () => {
      if (isAway) throw new Error("away");
    },
  };
  const ready = createReadiness({
    store,
    disks: roomy,
    credentialProblem: () => null,
    sandbox: { mode: "bwrap", warning: null },
    modesProblem: () => null,
    companions: async () => [],
    isDraining: () => false,
    closing: new AbortController().signal,
  });
  expect((await ready()).ready).toBe(false);
  isAway = false;
  vi.setSystemTime(Date.now() - 3_600_000);
  await until(async () => (await ready()).ready, { what: "a new answer" });
});
