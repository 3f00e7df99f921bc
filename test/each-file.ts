import { afterAll, expect, vi } from "vitest";
import { cleanUp } from "./cleanup.ts";

// Here agents work as those of users do. Elsewhere it makes no difference, and a start with a sandbox takes longer.
// A worker runs one file after another.
if (/\/test\/(e2e|chat)\//.test(expect.getState().testPath ?? "")) process.env["TEST_SANDBOX"] = "auto";
else delete process.env["TEST_SANDBOX"];

afterAll(async () => {
  // A PATH of one file must not be that of the next.
  vi.unstubAllEnvs();
  await cleanUp();
});
