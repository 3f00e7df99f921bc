import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultOf, initSharedFs } from "../../src/main/init-shared-fs.ts";
import { createLog } from "../../src/lib/log.ts";
import { createProfiles } from "../../src/profiles/profiles.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";

const bundled = join(import.meta.dirname, "..", "..", "src", "profiles", "bundled");
const main = join(import.meta.dirname, "..", "..", "src", "cli", "main.ts");
const places = ["job-state", "jobs", "profiles", "repos"];

const init = (root: string, ...more: string[]) => svc(["init-shared-fs", "--shared-root", root, ...more]);
const text = (...parts: string[]): Promise<string> => readFile(join(...parts), "utf8");
const modeOf = async (...parts: string[]): Promise<string> =>
  ((await stat(join(...parts))).mode & 0o7777).toString(8);

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

test("done again it changes nothing and says so; what the user changed stays and is named", async () => {
  const root = await temporaryDirectory();
  await init(root);
  const own = join(root, "profiles", "code", "profile.yml");
  await writeFile(own, "description: mine\n");
  const { code, stdout, stderr } = await init(root);
  expect(code).toBe(0);
  expect(stdout).not.toMatch(/^(created|copied)/m);
  expect(stdout.match(/^was there/gm)).toHaveLength(4);
  expect(stderr).toContain(`${own} is not as in this version of svc and was left as it is`);
  expect(stderr).not.toContain("review");
  expect(await text(own)).toBe("description: mine\n");
});

test("a profile that another file defines already gets no second one, which would make both unusable", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "profiles"));
  await writeFile(join(root, "profiles", "mine.yml"), "name: code\ndescription: mine\n");
  const { code, stdout } = await init(root, "--json");
  expect(code).toBe(0);
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["mine.yml", "review"]);
  expect(JSON.parse(stdout)).toMatchObject({
    success: true,
    shared_root: root,
    profiles: [
      {
        name: "code",
        copied: false,
        left: expect.stringContaining("mine.yml is a profile named code") as string,
      },
      { name: "review", copied: true, left: null },
    ],
  });
});

test("any number may do it at once: each profile is whole, and nothing else is left behind", async () => {
  const root = await temporaryDirectory();
  const runs = await Promise.all(Array.from({ length: 6 }, () => init(root, "--json")));
  expect(runs.map(({ code, stderr }) => ({ code, stderr }))).toEqual(
    runs.map(() => ({ code: 0, stderr: "" })),
  );
  const copies = runs.flatMap(
    ({ stdout }) => (JSON.parse(stdout) as { profiles: { name: string; copied: boolean }[] }).profiles,
  );
  expect(
    copies
      .filter(({ copied }) => copied)
      .map(({ name }) => name)
      .toSorted(),
  ).toEqual(["code", "review"]);
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["code", "review"]);
  for (const name of ["code", "review"]) {
    expect(await text(root, "profiles", name, "profile.yml")).toBe(await text(bundled, name, "profile.yml"));
  }
});

test("those who copy a profile at the very same moment leave one whole copy and no other trace", async () => {
  const root = await temporaryDirectory();
  const made = await Promise.all(Array.from({ length: 12 }, () => initSharedFs(root)));
  const copies = made
    .flatMap((each) => ("fault" in each ? [] : each.profiles))
    .filter(({ copied }) => copied);
  expect(made.filter((each) => "fault" in each)).toEqual([]);
  expect(copies).toHaveLength(2);
  expect((await readdir(join(root, "profiles"))).toSorted()).toEqual(["code", "review"]);
});

test("whoever may write to the root may write to what is made in it, whatever the umask is", async () => {
  const root = await temporaryDirectory();
  await chmod(root, 0o2770);
  const program = ["sh", "-c", `umask 077; exec "$0" "$@"`, process.execPath, main];
  expect((await svc(["init-shared-fs", "--shared-root", root], { program })).code).toBe(0);
  for (const name of places) expect([name, await modeOf(root, name)]).toEqual([name, "2770"]);
  expect(await modeOf(root, "profiles", "code")).toBe("2770");
  expect(await modeOf(root, "profiles", "code", "profile.yml")).toBe("660");
});

test("a root or a place in it that is no directory is reported in a sentence", async () => {
  const root = await temporaryDirectory();
  const file = join(root, "file");
  await writeFile(file, "");
  const onFile = await init(file);
  expect(onFile.stderr).toBe(`svc: ${file} is not a directory; move it away, or name another shared root\n`);
  expect(onFile.code).toBe(1);
  const underFile = await init(join(file, "root"));
  expect(underFile.stderr).toMatch(/file\/root is not a directory, or something on the way to it is not/);
  await writeFile(join(root, "repos"), "");
  const taken = await init(root, "--json");
  expect(JSON.parse(taken.stdout)).toMatchObject({ success: false, code: "shared_fs_unusable" });
  expect(taken.stderr).toMatch(/\/repos is not a directory/);
  await rm(join(root, "repos"));
  await symlink(join(root, "nowhere"), join(root, "repos"));
  expect((await init(root)).stderr).toMatch(/\/repos is a link that leads nowhere/);
});

test("a root that this user may not write to is reported in a sentence", async () => {
  const root = await temporaryDirectory();
  await chmod(root, 0o555);
  // Root may write anywhere: it has to be somebody else.
  const nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
  const program = [...(process.getuid?.() === 0 ? nobody : []), process.execPath, main];
  const { code, stderr } = await svc(["init-shared-fs", "--shared-root", root], { program });
  expect(stderr).toMatch(`svc: ${root} may not be written to by this user; change its owner or mode`);
  expect(code).toBe(1);
});

test.each([
  ["EROFS", "/mnt/x is on a file system that is read-only; mount it so that it can be written to"],
  ["ENOSPC", "/mnt/x is on a file system without free room; make some"],
  ["EDQUOT", "/mnt/x is on a file system whose quota is used up; make room, or raise it"],
])("a file system that gives %s is told in a sentence", (code, sentence) => {
  expect(faultOf("/mnt/x", Object.assign(new Error(code), { code }))).toBe(sentence);
});
