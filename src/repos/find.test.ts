import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { find } from "./find.ts";
import type { GitContext } from "./git-context.ts";

const within = (gitTimeout: number, signal = new AbortController().signal) =>
  ({ settings: { gitTimeout }, signal }) as GitContext;

test("each byte of a name is a character", async () => {
  const directory = await temporaryDirectory();
  await writeFile(Buffer.concat([Buffer.from(`${directory}/a`), Buffer.from([0xe4, 0xff])]), "");
  expect(await find(within(60), directory, ["-type", "f", "-print0"])).toBe("./a\u00e4\u00ff\0");
});

test("a list that is cut short is never taken for the whole", async () => {
  const directory = await temporaryDirectory();
  for (const name of ["one", "two"]) await writeFile(join(directory, name), "");
  const slow = ["-type", "f", "-print", "-exec", "sleep", "30", ";"];
  const refused = { reason: "worktree_failed" };
  await expect(find(within(0.5), directory, slow)).rejects.toMatchObject(refused);
  await expect(find(within(60, AbortSignal.timeout(500)), directory, slow)).rejects.toThrow(/./);
  const endless = ["-exec", "head", "-c", "100000000", "/dev/zero", ";"];
  await expect(find(within(60), directory, endless)).rejects.toMatchObject(refused);
});
