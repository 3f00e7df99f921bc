import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { machineId } from "./machine-id.ts";

test("the name of a machine is a random id that is kept in BRIDGE_DIR", async () => {
  const directory = join(await temporaryDirectory(), "bridge");
  const id = machineId(directory);
  expect(id).toMatch(/^[0-9a-f-]{36}$/);
  expect(await readFile(join(directory, "machine"), "utf8")).toBe(`${id}\n`);
  expect((await stat(join(directory, "machine"))).mode & 0o777).toBe(0o600);
  expect(machineId(directory)).toBe(id);
  expect(machineId(join(await temporaryDirectory(), "other"))).not.toBe(id);
});

test("a file that holds no id is refused with what to do", async () => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "machine"), "");
  expect(() => machineId(directory)).toThrow(/machine holds no id: .*BRIDGE_MACHINE/);
});
