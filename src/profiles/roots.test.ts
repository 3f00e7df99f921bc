import { cp, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createLog } from "../lib/log.ts";
import { createProfiles } from "./profiles.ts";
import { bundledRoot, profileRoots, type CompanionReader } from "./roots.ts";
import { noBoundary } from "./profiles.fixture.ts";

it("later directories of the search order win: bundled, hooks, bundle, shared, home", async () => {
  const companions: CompanionReader = async (target) => ({ path: `/${target}`, label: null });
  const roots = await profileRoots({ home: "/h", sharedFsRoot: "/s", companions });
  expect(roots.map(({ name, path }) => [name, path])).toEqual([
    ["bundled", expect.any(String)],
    ["hooks", "/hooks/profiles"],
    ["bundle", "/bundle/profiles"],
    ["shared", "/s/profiles"],
    ["home", "/h/.service/profiles"],
  ]);
  const without = await profileRoots({ home: "/h", sharedFsRoot: null, companions: async () => null });
  expect(without).toHaveLength(2);
});

it("the bundled profiles are found beside a bundle of one file too", async () => {
  const bundle = await temporaryDirectory();
  await cp(bundledRoot().path, join(bundle, "profiles"), { recursive: true });
  expect(await readdir(bundledRoot(bundle).path)).toEqual(["code", "review"]);
  const settings = { sharedFsRoot: null, defaultProfile: "code", hooksProfile: "coding", agentCliTimeout: 1 };
  const roots = [bundledRoot(bundle)];
  const list = await createProfiles({
    settings,
    companions: async () => null,
    boundary: noBoundary,
    home: bundle,
    roots,
    log: createLog("silent", (text) => text),
  }).list();
  expect(list.map(({ name, error }) => [name, error])).toEqual([
    ["code", null],
    ["review", null],
  ]);
});
