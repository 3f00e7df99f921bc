import { execFileSync } from "node:child_process";
import { chown, cp, mkdir, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { lockFile } from "../../src/lib/file-lock.ts";
import { svc } from "../cli/run-svc.ts";
import { sampleRecord } from "../ports/job-record-sample.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { copyOf, install, makePackage, pack, type Installed } from "./installed.ts";

const isRoot = process.getuid?.() === 0;
let original: Installed;
let installed: Installed;
let service: Service;
beforeAll(async () => {
  original = await install(await pack(await makePackage("0.1.0")));
  installed = await copyOf(original);
  const jobs = join(installed.home, ".service", "jobs");
  await mkdir(jobs, { recursive: true });
  const id = crypto.randomUUID();
  const ended = { status: "succeeded" as const, ended_at: new Date().toISOString() };
  const record = sampleRecord({ id, created_at: new Date().toISOString(), ...ended });
  await writeFile(join(jobs, ".format"), "1\n");
  await writeFile(join(jobs, `${id}.json`), JSON.stringify(record));
  service = await startService({ home: installed.home, program: installed.program });
});

describe("refused, with the service untouched:", () => {
  const nothingHasChanged = async (): Promise<void> => {
    expect((await fetch(`${service.url}/ready`)).status).toBe(200);
    expect(await installed.versions()).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
    expect(await readdir(installed.modules)).toEqual([".svc-agent.lock", "svc-agent"]);
  };

  test.each([
    ["another package", { name: "svc-agents" }, /is the package svc-agents, not svc-agent/],
    ["one for another Node", { node: ">=99" }, /needs Node >=99, and this is 24\..* install that one first/],
    [
      "a version that does not start",
      {
        replace: [`const version = "0.2.0"`, `const version = "0.2.0"; throw new Error("no luck")`] as const,
      },
      /svc 0\.2\.0 does not start on a copy of the store: [^]*no luck/,
    ],
  ])("%s", async (_, change, message) => {
    const { code, stdout, stderr } = await installed.update(await makePackage("0.2.0", change)).ended;
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/svc was not changed\n$/);
    expect(JSON.parse(stdout)).toMatchObject({ success: false, code: "update_failed" });
    expect(code).toBe(1);
    await nothingHasChanged();
  });

  test.each([
    [
      "dies while it starts",
      ["const lock = await lockDirectories(", "process.exit(7); await lockDirectories("],
      /svc 0\.0\.9 does not start on a copy of the store/,
    ],
    [
      "has another format of the store",
      ["storeFormat = 1", "storeFormat = 0"],
      /svc 0\.0\.9 does not start on a copy of the store: .*has the format 1, this program's format is 0/s,
    ],
    [
      "cannot read the records",
      ["return checkRecord(JSON.parse(text), id)", `return "it has another shape"`],
      /svc 0\.0\.9 does not read the records as svc 0\.1\.0 does \(succeeded: 0 instead of 1\): their format differs/,
    ],
  ] as const)("the way back to a version that %s", async (_, replace, message) => {
    const other = join(installed.modules, "svc-agent.other");
    await cp(await makePackage("0.0.9", { replace }), other, { recursive: true });
    const { code, stderr } = await installed.rollback().ended;
    await rm(other, { recursive: true });
    expect(stderr).toMatch(message);
    expect(code).toBe(1);
    await nothingHasChanged();
  });

  test.each([
    ["", /neither a git URL nor a directory or \.tgz/],
    ["left-pad", /"left-pad" is neither/],
    ["--help", /"--help" is neither/],
    ["/etc/hostname", /npm install did not succeed/],
    ["file:///nonexistent.git#main", /git clone ended with/],
    ["svc-agent@1.2.3", /"svc-agent@1.2.3" is neither/],
  ])("the source %j", async (source, message) => {
    const { code, stderr } = await installed.update(source).ended;
    expect(stderr).toMatch(message);
    expect(code).toBe(1);
    await nothingHasChanged();
  });

  test("a disk with less room than a package takes, before npm runs", async () => {
    const copy = await temporaryDirectory();
    const script = 'mount -t tmpfs -o size=90m tmpfs "$1" && cp -a "$2/." "$1" && shift 2 && exec "$@"';
    const small = ["unshare", "--mount", ...(isRoot ? [] : ["--map-root-user"]), "sh", "-c", script, "sh"];
    const { code, stderr } = await svc(["update", "--yes", "--source", "/nonexistent"], {
      program: [...small, copy, original.prefix, join(copy, "bin", "svc")],
      env: { HOME: original.home },
    });
    const where = join(copy, "lib", "node_modules");
    expect(stderr).toMatch(
      new RegExp(
        `^svc: The disk of ${where} has \\d\\d MiB free, and an update needs 100 MiB: free some space`,
      ),
    );
    expect(code).toBe(1);
  });

  test("the way back when there is none, and a second update at the same time", async () => {
    expect((await installed.rollback().ended).stderr).toContain("There is no version before");
    const path = join(installed.modules, ".svc-agent.lock");
    await using _lock = await lockFile({ path, timeoutSeconds: 5, signal: AbortSignal.timeout(5000) });
    expect((await installed.rollback().ended).stderr).toMatch(/Another update of .* is under way/);
    await nothingHasChanged();
  });
});

test("the package that is installed is not installed again, and the service goes on", async () => {
  const { code, stdout, stderr } = await installed.update(await makePackage("0.1.0")).ended;
  expect(stderr).toMatch(/svc 0\.1\.0 is installed already, with the same content: nothing is changed\n$/);
  expect(JSON.parse(stdout)).toEqual({ success: true, from: "0.1.0", to: "0.1.0", start: null });
  expect(code).toBe(0);
  expect((await fetch(`${service.url}/ready`)).status).toBe(200);
  expect(await readdir(installed.modules)).toEqual([".svc-agent.lock", "svc-agent"]);
});

test("a git URL is fetched, at the branch that it names", async () => {
  const repository = await makePackage("0.3.0", { name: "svc-fork" });
  const git = (...args: string[]) =>
    execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: repository });
  git("init", "--quiet", "--initial-branch", "next");
  git("add", "package.json");
  git("commit", "--quiet", "-m", "a fork");
  const { stderr } = await installed.update(`git+file://user:secret@${repository}#next`).ended;
  expect(stderr).toMatch(/svc-update-\w+ is the package svc-fork, not svc-agent/);
  expect(stderr).not.toContain("secret");
});

test("who may not write to the installation is told before anything else", async () => {
  if (!isRoot) execFileSync("chmod", ["a-w", join(original.prefix, "bin")]);
  const nobody = isRoot ? ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] : [];
  const { code, stderr } = await svc(["update", "--yes", "--source", "x"], {
    program: [...nobody, ...original.program],
    env: { NODE_COMPILE_CACHE: "" },
  });
  expect(stderr).toMatch(
    /^svc: This user may not write to .*: run svc update as a user who may; in a container/,
  );
  expect(code).toBe(1);
});

test.each([
  [["update", "--rollback", "--source", "svc-agent"], 2, /--rollback goes back/],
  [["update", "--yes"], 2, /^svc: Name the version to install, svc update --source FILE\.tgz: no registry/],
  [["update", "--source", "x"], 2, /without a terminal to ask on, it needs --yes/],
  [
    ["update", "--yes", "--source", "x"],
    1,
    /is not what "npm install --global" has installed: update a checkout with git pull.*\. svc was not changed/,
  ],
])("%j from a checkout ends with %i", async (args, exit, message) => {
  const program = [process.execPath, join(import.meta.dirname, "..", "..", "src", "cli", "main.ts")];
  const { code, stderr } = await svc(args, { program });
  expect(stderr).toMatch(message);
  expect(code).toBe(exit);
});

test("a program that npm has installed for one project is left to npm", async () => {
  const directory = join(await realpath(await temporaryDirectory()), "node_modules", "svc-agent");
  await cp(join(original.modules, "svc-agent"), directory, { recursive: true });
  const program = [join(directory, "dist", "svc.mjs")];
  const { stderr } = await svc(["update", "--yes", "--source", "x"], { program });
  expect(stderr).toMatch(
    /is not what "npm install --global" has installed.* another package as it was installed/,
  );
});

test("when the programs cannot be replaced, the version stands and the message starts the service again", async () => {
  await cp(await makePackage("0.2.0"), join(installed.modules, "svc-agent.other"), { recursive: true });
  // In the way of the new link.
  await mkdir(join(installed.prefix, "bin", ".bridge.update"));
  const { code, stderr } = await installed.rollback().ended;
  const start = `${installed.program[0]} serve --port ${new URL(service.url).port}`;
  expect(stderr).toMatch(
    /svc: The programs cannot be replaced \(.*bridge\.update.*\), and svc 0\.1\.0 stands\. /,
  );
  expect(stderr).toContain(
    `. In the environment that it had, start the service again with "${start}". svc was not changed\n`,
  );
  expect(code).toBe(1);
  expect(await installed.versions()).toEqual(["svc 0.1.0", "bridge 0.1.0"]);
});

describe("as root,", () => {
  // Who is not root maps itself to root: / is then another user's.
  const asRoot = isRoot ? [] : ["unshare", "--map-root-user"];
  const update = (env: Record<string, string>, source = "/nonexistent") =>
    svc(["update", "--yes", "--source", source], {
      program: [...asRoot, ...installed.program],
      env: { PATH: process.env["PATH"] ?? "", HOME: original.home, ...env },
    });
  const theirs = async (): Promise<string> => {
    const directory = await temporaryDirectory();
    if (isRoot) await chown(directory, 65534, 65534);
    return directory;
  };

  test.each(["HOME", "SERVICE_JOBS_DIR"])("with a %s of another user nothing is read there", async (name) => {
    const directory = join(await theirs(), "below");
    await mkdir(directory);
    const victim = join(await temporaryDirectory(), "file");
    await writeFile(victim, "precious");
    await symlink(victim, join(directory, ".lock"));
    // Not even its configuration is, which is wrong.
    await mkdir(join(directory, ".service"));
    await writeFile(join(directory, ".service", "config.yml"), "nonsense: 1");
    const { code, stderr } = await update({ [name]: directory });
    expect(stderr).toMatch(/^svc: As root, svc update trusts no directory of another user, and \/\S* of /);
    expect(stderr).toContain(
      `run "env -u SERVICE_JOBS_DIR HOME=${userInfo().homedir} svc update --source /nonexistent"`,
    );
    expect(code).toBe(1);
    expect(await readFile(victim, "utf8")).toBe("precious");
  });

  test("npm reads no .npmrc of a home", async () => {
    const home = await temporaryDirectory();
    const log = join(home, "asked");
    await writeFile(join(home, ".npmrc"), `prefix=${home}\n`);
    const bin = join(home, "bin");
    await mkdir(bin);
    await writeFile(join(bin, "npm"), `#!/bin/sh\necho "$@" > ${log}\nexit 1\n`, { mode: 0o755 });
    const { stderr } = await svc(["update", "--yes", "--source", "/etc/hostname"], {
      program: installed.program,
      env: { PATH: `${bin}:${process.env["PATH"]}`, HOME: home },
    });
    expect(stderr).toContain("npm install did not succeed");
    expect(await readFile(log, "utf8")).toMatch(isRoot ? /--userconfig=\/dev\/null/ : /^(?!.*--userconfig)/);
  });
});
