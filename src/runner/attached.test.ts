import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { attach } from "./attached.ts";

test("a job that goes on finds what its agent has made of its files; where they are gone they are written again", async () => {
  const worktree = await temporaryDirectory();
  const files = [{ name: "data.csv", content: "as given", encoding: "utf-8" as const }];
  const path = join(worktree, ".svc/in/data.csv");
  const first = await attach(files, { worktree, goesOn: false });
  await writeFile(path, "as changed");
  expect(await attach(files, { worktree, goesOn: true })).toEqual(first);
  expect(await readFile(path, "utf8")).toBe("as changed");
  await rm(join(worktree, ".svc"), { recursive: true });
  await attach(files, { worktree, goesOn: true });
  expect(await readFile(path, "utf8")).toBe("as given");
});
