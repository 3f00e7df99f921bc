import { expect, test } from "vitest";
import { logText } from "./log-text.ts";

const time = "2026-03-02T09:15:00.000Z";
const line = (fields: object): string => logText(JSON.stringify({ time, level: "info", ...fields }));

test("a line has time, level, message and the other fields, without the request's id", () => {
  const text = line({
    msg: "request",
    path: "/jobs",
    status: 200,
    instance: "a b",
    url: null,
    request_id: "r",
  });
  expect(text).toMatch(/^\d\d:\d\d:\d\d INFO {2}request path=\/jobs status=200 instance="a b"\n$/);
});

test("an error is a field, and has its stack below only at the level error", () => {
  const err = { message: "It broke", stack: "Error: It broke\n    at x.ts:1" };
  expect(line({ level: "warn", msg: "trouble", err })).toMatch(/ WARN {2}trouble error="It broke"\n$/);
  expect(line({ level: "error", msg: "trouble", err })).toMatch(
    /error="It broke"\nError: It broke\n {4}at x.ts:1\n$/,
  );
});

test("nothing in it moves the cursor or changes the direction of the text", () => {
  const text = line({ msg: "a\u001b[2J\u202Eb", path: "\u001b]0;x\u0007" });
  for (const harmful of ["\u001b", "\u0007", "\u202E"]) expect(text).not.toContain(harmful);
});
