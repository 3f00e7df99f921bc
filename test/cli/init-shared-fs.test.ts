import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { initSharedFs } from "../../src/main/init-shared-fs.ts";
import { createLog } from "../../src/lib/log.ts";
import { createProfiles } from "../../src/profiles/profiles.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";
import { noBoundary } from "../../src/profiles/profiles.fixture.ts";

const bundled = join(import.meta.dirname, "..", "..", "src", "profiles", "bundled");
const places = ["job-state", "jobs", "profiles", "repos"];

const init = (root: string, ...more: string[]) => svc(["init-shared-fs", "--shared-root", root, ...more]);
const text = (...parts: string[]): Promise<string> => readFile(join(...parts), "utf8");

test("the shared root gets its four directories, and the bundled profiles as they are", async () => {
  const root = join(await temporaryDirectory(), "new", "root");
  const { code, stdout, stderr } = await init(root);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect((await readdir(root)).toSorted()).toEqual(places);
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["code", "review"]);
  for (const name of ["code", "review"]) {
    expect(await text(root, "profiles", name, "profile.yml")).toBe(await text(bundled, name, "profile.yml"));
  }
  expect(stdout).toMatch(/^created +\/.*\/root\/job-state$/m);
  expect(stdout).toMatch(/^copied +\/.*\/root\/profiles\/code$/m);
});

test("profiles that were copied work like the bundled ones", async () => {
  const root = await temporaryDirectory();
  await init(root);
  const listed = async (sharedFsRoot: string | null) =>
    (
      await createProfiles({
        settings: { sharedFsRoot, defaultProfile: "code", hooksProfile: "coding", agentCliTimeout: 1 },
        companions: async () => null,
        boundary: noBoundary,
        home: "/nonexistent",
        log: createLog("silent", (text) => text),
      }).list()
    ).map(({ source: _source, ...profile }) => profile);
  expect(await listed(root)).toEqual(await listed(null));
});

test("the root is the one of the service's settings unless it is named", async () => {
  const root = await temporaryDirectory();
  const { code } = await svc(["init-shared-fs"], { env: { SERVICE_SHARED_FS_ROOT: root } });
  expect(code).toBe(0);
  expect((await readdir(root)).toSorted()).toEqual(places);
});

test("done again it changes nothing and says so; what the user has stays", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "profiles", "code"), { recursive: true });
  const own = join(root, "profiles", "code", "profile.yml");
  await writeFile(own, "description: mine\n");
  await writeFile(join(root, "profiles", "review.yml"), "description: mine\n");
  for (const created of [3, 0]) {
    const { code, stdout } = await init(root);
    expect(code).toBe(0);
    expect(stdout).not.toMatch(/^copied/m);
    expect(stdout.match(/^created/gm) ?? []).toHaveLength(created);
  }
  expect(await text(own)).toBe("description: mine\n");
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["code", "review.yml"]);
});

test("those who do it at the very same moment leave whole copies and nothing else", async () => {
  const root = await temporaryDirectory();
  const done = await Promise.all(Array.from({ length: 12 }, () => initSharedFs(root)));
  const copied = done.flatMap(({ profiles }) => profiles.filter((each) => each.copied));
  expect(copied.map(({ name }) => name).toSorted()).toEqual(["code", "review"]);
  expect((await readdir(root)).toSorted()).toEqual(["job-state", "jobs", "profiles", "repos"]);
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["code", "review"]);
  for (const name of ["code", "review"]) {
    expect(await text(root, "profiles", name, "profile.yml")).toBe(await text(bundled, name, "profile.yml"));
  }
});

test("a root that cannot be used is reported with what to do", async () => {
  const root = await temporaryDirectory();
  const file = join(root, "repos");
  await writeFile(file, "");
  const taken = await init(root, "--json");
  expect(JSON.parse(taken.stdout)).toMatchObject({ success: false, code: "shared_fs_unusable" });
  expect(taken.stderr).toMatch(
    /^svc: \S+ cannot be laid out \(EEXIST.*\): make it a directory .*--shared-root\n$/,
  );
  expect(taken.code).toBe(1);
  const underFile = await init(join(file, "root"));
  expect(underFile.stderr).toMatch(/cannot be laid out \(ENOTDIR/);
});
