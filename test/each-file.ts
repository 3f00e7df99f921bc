import { afterAll, expect } from "vitest";
import { cleanUp } from "./cleanup.ts";

// Here agents work as those of users do. Elsewhere it makes no difference, and a start with a sandbox takes longer.
if (/\/test\/(e2e|chat)\//.test(expect.getState().testPath ?? "")) process.env["TEST_SANDBOX"] = "auto";

afterAll(cleanUp);
