import { expect, test } from "vitest";
import { age, bytes, clock, duration } from "./columns.ts";

test.each([
  [null, "–"],
  [0, "0 B"],
  [1023, "1023 B"],
  [1024, "1.0 KiB"],
  [10_188, "9.9 KiB"],
  [10_200, "10 KiB"],
  [1_047_552, "1023 KiB"],
  [1_048_570, "1.0 MiB"],
  [1_503_238_554, "1.4 GiB"],
  [1024 ** 4 * 2.5, "2.5 TiB"],
  [Number.MAX_SAFE_INTEGER, "8.0 PiB"],
])("%j bytes are %s", (size, text) => {
  expect(bytes(size)).toBe(text);
});

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [1000, "1.0 s"],
  [59_940, "59.9 s"],
  [59_960, "1m 00s"],
  [125_400, "2m 05s"],
  [3_599_600, "1h 00m"],
  [3_720_000, "1h 02m"],
])("%i ms is %s", (milliseconds, text) => {
  expect(duration(milliseconds)).toBe(text);
});

test.each([
  [-5, "0:00"],
  [7999, "0:07"],
  [754_000, "12:34"],
  [3_723_000, "1:02:03"],
])("a clock shows %i ms as %s", (milliseconds, text) => {
  expect(clock(milliseconds)).toBe(text);
});

test.each([
  [-5, "<1 min"],
  [59_999, "<1 min"],
  [60_000, "1 min"],
  [3_599_999, "59 min"],
  [3_600_000, "1 h"],
  [47.9 * 3_600_000, "47 h"],
  [48 * 3_600_000, "2 d"],
  [400 * 86_400_000, "400 d"],
])("%i ms ago is %s", (milliseconds, text) => {
  expect(age(milliseconds)).toBe(text);
});
