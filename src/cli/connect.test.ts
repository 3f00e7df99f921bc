import { expect, test } from "vitest";
import { baseUrlOf } from "./connect.ts";

test.each([
  ["127.0.0.1", "http://127.0.0.1:8200"],
  ["0.0.0.0", "http://127.0.0.1:8200"],
  ["::", "http://[::1]:8200"],
  ["[::]", "http://[::1]:8200"],
  ["::1", "http://[::1]:8200"],
  ["[fd00::1]", "http://[fd00::1]:8200"],
  ["svc.example.com", "http://svc.example.com:8200"],
])("a service that listens on %s is asked at %s", (host, url) => {
  expect(baseUrlOf({ host, port: 8200 })).toBe(url);
});

test("port 0 is refused, with what to do", () => {
  expect(() => baseUrlOf({ host: "127.0.0.1", port: 0 })).toThrow(/SERVICE_PORT is 0.*printed/);
});
