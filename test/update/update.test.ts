import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { chmod, chown, mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { lockFile } from "../../src/lib/file-lock.ts";
import { afterFile } from "../cleanup.ts";
import { svc } from "../cli/run-svc.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { install, makePackage, makeSmallPackage } from "./installed.ts";

const isRoot = process.getuid?.() === 0;
const homeOfRoot = execFileSync("getent", ["passwd", "0"], { encoding: "utf8" }).split(":")[5];
const restart = `systemctl ${isRoot ? "" : "--user "}restart svc`;

const installed = await install();
beforeEach(installed.reset);

test("svc and bridge become another version and go back and forth, and the service is not touched", async () => {
  const service = await startService({
    home: installed.home,
    program: installed.program,
    env: { NODE_COMPILE_CACHE: installed.env.NODE_COMPILE_CACHE },
  });
  const next = await makePackage("0.2.0", await temporaryDirectory());
  const updated = await installed.update(next).ended;
  expect(updated).toMatchObject({
    code: 0,
    stderr: "Packing it; a checkout is built first, which takes a minute or some\n",
  });
  expect(JSON.parse(updated.stdout)).toEqual({ success: true, from: "0.1.0", to: "0.2.0", restart });
  const run = (name: string, ...args: string[]) =>
    svc(args, {
      program: [process.execPath, join(installed.prefix, "bin", name)],
      env: installed.env,
    });
  for (const name of ["svc", "bridge"])
    expect(await run(name, "version")).toMatchObject({ stdout: `${name} 0.2.0\n` });
  const [place = ""] = (await readdir(installed.versions)).filter((name) => name.startsWith("0.2.0-"));
  expect(await readlink(join(installed.versions, "current"))).toBe(`${place}/node_modules/svc-agent`);
  expect(await readlink(join(installed.versions, "previous"))).toBe("../node_modules/svc-agent");

  for (const version of ["0.1.0", "0.2.0"]) {
    const { code, stdout } = await run("svc", "update", "--rollback");
    expect(stdout).toMatch(new RegExp(`^svc is ${version}, it was 0\\..*A service .* until: ${restart}\n$`));
    expect(code).toBe(0);
    expect(await installed.inUse()).toEqual([version, version]);
  }
  expect((await fetch(`${service.url}/ready`)).status).toBe(200);
  await service.stop();

  await writeFile(join(installed.home, ".service", "jobs", ".format"), "7\n");
  const { code, stderr } = await run("svc", "update", "--rollback");
  expect(stderr).toMatch(
    /^svc: svc 0\.1\.0 refuses the store: The store in .* has the format 7, .*not changed\n$/,
  );
  expect(code).toBe(1);
  expect(await installed.inUse()).toEqual(["0.2.0", "0.2.0"]);
});

describe("kill -9", () => {
  /** For NODE_OPTIONS: svc kills itself instead of renaming for the nth time. */
  const killedAt = (nth: number): Record<string, string> => ({
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(`
    import files from "node:fs/promises"; import { syncBuiltinESMExports } from "node:module";
    const rename = files.rename; let left = ${nth};
    files.rename = (from, to) => (--left > 0 ? rename(from, to) : process.kill(process.pid, "SIGKILL"));
    syncBuiltinESMExports();`)}`,
  });

  test("before a rename leaves two programs of the version that was there", async () => {
    await mkdir(installed.versions);
    const before = join(installed.versions, "previous");
    const small = await makeSmallPackage("0.2.0");
    // The first, between the links to the programs, and the last one.
    for (const nth of [1, 2, 4, 7]) {
      // A kill after the first rename has left it pointing to the version in use.
      execFileSync("ln", ["-sfn", small, before]);
      const { child, ended } = installed.rollback(killedAt(nth));
      await ended;
      expect(child.signalCode).toBe("SIGKILL");
      expect(await installed.inUse()).toEqual(["0.1.0", "0.1.0"]);
    }
    execFileSync("ln", ["-sfn", small, before]);
    expect((await installed.rollback(killedAt(8)).ended).code).toBe(0);
    expect(await installed.inUse()).toEqual(["0.2.0", "0.2.0"]);
  });

  test("while npm works leaves them, too; the next update removes what is left and older versions", async () => {
    await mkdir(join(installed.versions, "0.0.9-12345678"), { recursive: true });
    const bin = await temporaryDirectory();
    const mark = join(bin, "pid");
    await writeFile(join(bin, "npm"), `#!/bin/sh\necho $$ > ${mark}\nexec sleep 600\n`, { mode: 0o755 });
    const small = await makeSmallPackage("0.2.0");
    const { child } = installed.update(`${small}.tgz`, { PATH: `${bin}:${process.env["PATH"]}` });
    const pid = (): number => Number(readFileSync(mark, "utf8"));
    await until(async () => (await readdir(bin)).includes("pid") && pid() > 0);
    afterFile(() => process.kill(pid(), "SIGKILL"));
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
    expect(await installed.inUse()).toEqual(["0.1.0", "0.1.0"]);
    const left = async () => (await readdir(installed.versions)).toSorted().map((name) => name.split("-")[0]);
    expect(await left()).toEqual([".lock", ".new", "0.0.9"]);
    expect((await installed.update(`${small}.tgz`).ended).code).toBe(0);
    expect(await left()).toEqual([".lock", "0.2.0", "current", "previous"]);
    expect((await installed.update(`${small}.tgz`).ended).stderr).toContain(
      "svc 0.2.0 with this content is in use already\n",
    );
  });
});

describe("refused, with nothing changed:", () => {
  const nothingHasChanged = async (): Promise<void> => {
    expect(await installed.inUse()).toEqual(["0.1.0", "0.1.0"]);
    expect(await readdir(installed.versions)).toEqual([".lock"]);
  };
  const refused = async (source: string, message: RegExp, env?: Record<string, string>): Promise<void> => {
    const { code, stdout, stderr } = await installed.update(source, env).ended;
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/svc was not changed\n$/);
    expect(JSON.parse(stdout)).toMatchObject({ success: false, code: "update_failed" });
    expect(code).toBe(1);
    await nothingHasChanged();
  };

  test.each([
    ["another package", { name: "svc-agents" }, /is not the package svc-agent/],
    ["one for another Node", { node: ">=99" }, /npm install did not succeed: [^]*>=99/],
    [
      "one that does not start",
      { script: `throw new Error("no luck")` },
      /svc 0\.2\.0 does not run with these settings: [^]*no luck/,
    ],
    ["one without a doctor", { script: `if (process.argv[2] === "doctor") throw "no"` }, /does not run with/],
  ])("%s", async (_, change, message) => {
    await refused(`${await makeSmallPackage("0.2.0", change)}.tgz`, message);
  });

  test.each([
    ["svc-agent@1.2.3", /"svc-agent@1\.2\.3" is neither a git URL nor a directory or \.tgz/],
    ["file:///nonexistent.git#main", /git clone ended with/],
  ])("the source %j", refused);

  test("the way back when there is none, and a second update at the same time", async () => {
    expect((await installed.rollback().ended).stderr).toContain("There is no version before");
    const path = join(installed.versions, ".lock");
    await using _lock = await lockFile({ path, timeoutSeconds: 5, signal: AbortSignal.timeout(5000) });
    expect((await installed.rollback().ended).stderr).toMatch(/another update is under way/);
    await nothingHasChanged();
  });

  test("a user who may not write there", async () => {
    await mkdir(installed.versions);
    if (!isRoot) await chmod(installed.versions, 0o555);
    const program = [
      ...(isRoot ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : []),
      ...installed.program,
    ];
    const env = { NODE_COMPILE_CACHE: "" };
    const { code, stderr } = await svc(["update", "--source", "x"], { program, env });
    await chmod(installed.versions, 0o755);
    expect(stderr).toMatch(/^svc: .* cannot be changed: run svc update as a user who may write there/);
    expect(code).toBe(1);
  });
});

test("a git URL is fetched, at the branch that it names, and no credential of it is shown", async () => {
  const repository = await makeSmallPackage("0.3.0");
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: repository });
  git("init", "--quiet", "--initial-branch", "next");
  git("add", ".");
  git("commit", "--quiet", "-m", "a version");
  const { code, stderr } = await installed.update(`git+file://user:secret@${repository}#next`).ended;
  expect(stderr).toMatch(/^Fetching file:\/\//);
  expect(stderr).not.toContain("secret");
  expect(code).toBe(0);
  expect(await installed.inUse()).toEqual(["0.3.0", "0.3.0"]);
});

test("from a checkout it ends with a sentence", async () => {
  const cases: [string[], number, RegExp][] = [
    [["--rollback", "--source", "svc-agent"], 2, /--rollback goes back/],
    [[], 2, /^svc: Name the version to install, svc update --source FILE\.tgz: no registry/],
    [
      ["--source", "x"],
      1,
      /is not what "npm install --global" has installed: update a checkout with git pull.*\. svc was not changed/,
    ],
  ];
  for (const [args, code, message] of cases)
    expect(await svc(["update", ...args])).toMatchObject({ code, stderr: expect.stringMatching(message) });
});

test.each(["HOME", "SERVICE_JOBS_DIR"])(
  "as root, with a %s of another user nothing is read there",
  async (name) => {
    const theirs = await temporaryDirectory();
    if (isRoot) await chown(theirs, 65534, 65534);
    const directory = join(theirs, "below");
    await mkdir(join(directory, ".service"), { recursive: true });
    await writeFile(join(directory, ".service", "config.yml"), "nonsense: 1");
    const victim = join(await temporaryDirectory(), "file");
    await writeFile(victim, "precious");
    await symlink(victim, join(directory, ".lock"));
    const { code, stderr } = await svc(["update", "--source", "/nonexistent"], {
      // Who is not root maps itself to root: / is then another user's.
      program: [...(isRoot ? [] : ["unshare", "--map-root-user"]), ...installed.program],
      env: { ...installed.env, [name]: directory },
    });
    expect(stderr).toMatch(/^svc: As root, svc update trusts no directory of another user, and \/\S* of /);
    expect(stderr).toContain(
      `run "env -u SERVICE_JOBS_DIR HOME=${homeOfRoot} svc update --source /nonexistent"`,
    );
    expect(code).toBe(1);
    expect(await readFile(victim, "utf8")).toBe("precious");
  },
);
