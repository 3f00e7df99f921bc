import { expect, test } from "vitest";
import { bytes } from "./bytes.ts";

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
