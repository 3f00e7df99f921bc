import { expect, test } from "vitest";
import { otlpUrl } from "./doors.ts";

test.each([
  ["http://0.0.0.0:8200", "http://127.0.0.1:8200/otlp"],
  ["http://[::]:8200", "http://127.0.0.1:8200/otlp"],
  ["http://127.0.0.1:1", "http://127.0.0.1:1/otlp"],
  ["http://[::1]:1", "http://[::1]:1/otlp"],
  ["http://10.0.0.7:8200", "http://10.0.0.7:8200/otlp"],
])("agents reach a service that listens on %s at %s", (url, expected) => {
  expect(otlpUrl(url)).toBe(expected);
});
