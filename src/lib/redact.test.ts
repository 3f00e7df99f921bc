import { expect, test } from "vitest";
import { createRedactor, redactDeep } from "./redact.ts";

const secret = 'quoted"and/slashed+0123';

test.each([
  ["as it is", secret],
  ["in JSON", JSON.stringify(secret).slice(1, -1)],
  ["in a URL", encodeURIComponent(secret)],
  ["as git's password", Buffer.from(`x-access-token:${secret}`).toString("base64").replace(/=+$/, "")],
])("a secret is hidden %s", (_, form) => {
  expect(createRedactor([secret])(`before ${form} after`)).toBe("before *** after");
});

test("a key of several lines is hidden line by line, but not its framing", () => {
  const redact = createRedactor(["-----BEGIN KEY-----\nabcdefgh\nijklmnop\n-----END KEY-----\n"]);
  expect(redact("-----BEGIN KEY----- ijklmnop abcdefgh")).toBe("-----BEGIN KEY----- *** ***");
});

test("a secret that is added is hidden in base64, whatever stands around it, and in lines of that", () => {
  const redact = createRedactor([]);
  const key = `-----BEGIN KEY-----\n${"abcdefghij/+klmnop?>".repeat(10)}\n-----END KEY-----`;
  for (const each of [secret, key]) redact.add(each, new Date(8.64e15));
  for (const before of ["", "x", "xy", "user:"])
    for (const encoding of ["base64", "base64url"] as const)
      expect(redact(Buffer.from(`${before}${secret}y`).toString(encoding))).toMatch(/^.{0,8}\*{3}.{0,4}$/);
  const lines =
    Buffer.from(`${key}\n`)
      .toString("base64")
      .match(/.{1,76}/g) ?? [];
  expect(redact(lines.join("\n"))).toMatch(/^(\*{3}\n)+.{0,4}\*{3}.{0,8}$/);
  expect(redact(new URLSearchParams({ a: secret }).toString())).toBe("a=***");
});

test("a thousand secrets that are added one after another are hidden within a second of processor time", () => {
  const redact = createRedactor([]);
  const values = Array.from({ length: 1000 }, (_, n) => `value-${n}-${"0123456789abcdef".repeat(2)}`);
  const before = process.cpuUsage();
  for (const value of values) redact.add(value, new Date(8.64e15));
  expect(redact(values.join(" "))).toBe(values.map(() => "***").join(" "));
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(1);
});

test("a secret that has expired is not hidden any more once another one comes", () => {
  const redact = createRedactor([]);
  redact.add("first-secret", new Date(0));
  expect(redact("first-secret")).toBe("***");
  redact.add("second-secret", new Date(8.64e15));
  expect(redact("first-secret second-secret")).toBe("first-secret ***");
});

test("words of fewer than six characters are no secrets", () => {
  expect(createRedactor(["short", ""])("a short text")).toBe("a short text");
});

test("an end that may be the beginning of a secret is reported", () => {
  const { unfinished } = createRedactor(["abcdef", "efghij"]);
  expect(["xabc", "xabcde", "abx", "", "abcdefgh"].map(unfinished)).toEqual([3, 5, 0, 0, 4]);
});

test("a value nested 50,000 levels deep is cut, and redacted above the cut", () => {
  const redact = createRedactor([secret]);
  let deep: unknown = secret;
  for (let level = 0; level < 50_000; level += 1) deep = level % 2 === 0 ? [deep] : { in: deep };
  const masked = JSON.stringify(redactDeep({ near: [secret], deep }, redact));
  expect(masked).toContain('{"near":["***"],"deep":{"in":[');
  expect(masked).toContain('{"in":"[… cut: nested more than 100 levels deep …]"}');
});
