import { afterAll, expect } from "vitest";
import { cleanUp } from "./cleanup.ts";

// Here agents work as those of users do. Elsewhere it makes no difference, and a start with a sandbox takes longer.
// A worker runs one file after another.
if (/\/test\/(e2e|chat)\//.test(expect.getState().testPath ?? "")) process.env["TEST_SANDBOX"] = "auto";
else delete process.env["TEST_SANDBOX"];

afterAll(cleanUp);
