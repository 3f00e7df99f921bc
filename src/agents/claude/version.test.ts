import { expect, test } from "vitest";
import { fakeAgent } from "../../../test/service-process.ts";
import { canAsk, isRecent } from "./version.ts";

test.each([
  ["2.1.197 (Claude Code)", true],
  ["2.1.331 (Claude Code)\n", true],
  ["2.10.0", true],
  ["10.0.0", true],
  ["2.1.196 (Claude Code)", false],
  ["1.99.999", false],
  ["Usage: agent", false],
  ["", false],
])("a CLI that says it is %j can ask a person: %s", (text, expected) => {
  expect(isRecent(text)).toBe(expected);
});

test("a CLI is asked for its version; one that does not say it, or is not there, cannot ask", async () => {
  const env = { PATH: String(process.env["PATH"]) };
  expect(await canAsk(fakeAgent, env)).toBe(true);
  expect(await canAsk("true", env)).toBe(false);
  expect(await canAsk("no-such-agent", env)).toBe(false);
});
