import { cp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createProfiles } from "./profiles.ts";
import { bundledDirectory, profileRoots } from "./roots.ts";

it("later directories of the search order win: bundled, shared, home", () => {
  const paths = profileRoots({ home: "/h", sharedFsRoot: "/s" }).map(({ path }) => path);
  expect(paths.slice(1)).toEqual(["/s/profiles", "/h/.service/profiles"]);
  expect(profileRoots({ home: "/h", sharedFsRoot: null })).toHaveLength(2);
});

it("the bundled profiles are found beside a bundle of one file too", async () => {
  const bundle = await temporaryDirectory();
  await cp(bundledDirectory(import.meta.dirname), join(bundle, "profiles"), { recursive: true });
  expect(await readdir(bundledDirectory(bundle))).toEqual(["code", "review"]);
  const settings = { sharedFsRoot: null, defaultProfile: "code", agentCliTimeout: 1 };
  const roots = [{ path: bundledDirectory(bundle), label: "bundled" }];
  const list = await createProfiles({ settings, home: bundle, roots }).list();
  expect(list.map(({ name, error }) => [name, error])).toEqual([
    ["code", null],
    ["review", null],
  ]);
});
