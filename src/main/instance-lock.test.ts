import { expect, test } from "vitest";
import { onLoopback } from "./instance-lock.ts";

test.each([
  ["http://0.0.0.0:8200", "http://127.0.0.1:8200"],
  ["http://[::]:8200", "http://127.0.0.1:8200"],
  ["http://127.0.0.1:1", "http://127.0.0.1:1"],
  ["http://[::1]:1", "http://[::1]:1"],
  ["http://10.0.0.7:8200", "http://10.0.0.7:8200"],
])("programs here reach a service that listens on %s at %s", (url, expected) => {
  expect(onLoopback(url)).toBe(expected);
});
