import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { until } from "../until.ts";
import { makeProject } from "./project.ts";

type Project = Awaited<ReturnType<typeof makeProject>>;

const start = (project: Project, args: string[], env: NodeJS.ProcessEnv = {}) =>
  spawn(process.execPath, [join(project.root, "tools", "run.mjs"), ...args], {
    cwd: "/",
    env: { PATH: `${project.programs}:/usr/bin:/bin`, HOME: project.root, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });

const run = async (project: Project, args: string[], env?: NodeJS.ProcessEnv) => {
  const child = start(project, args, env);
  const [stdout, stderr, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit"),
  ]);
  return { stdout, stderr, code: (code ?? signal) as number | string };
};

const npmCalls = async ({ root }: Project) =>
  (await readFile(join(root, "npm-calls"), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");

test("the first run installs what the lock file names, all of it, and the next one does not", async () => {
  const project = await makeProject();
  await project.addFile("hello.mjs", 'console.log("hello", process.cwd(), process.argv[2])');
  const first = await run(project, ["--", "hello.mjs", "you"], { NODE_ENV: "production" });
  expect(first).toMatchObject({
    code: 0,
    stdout: `hello ${project.root} you\n`,
    stderr: expect.stringContaining("npm ci"),
  });
  expect(await npmCalls(project)).toEqual([
    expect.stringContaining("ci --include=dev --include=optional --engine-strict=false"),
  ]);

  expect(await run(project, ["--", "hello.mjs", "again"])).toMatchObject({ code: 0, stderr: "" });
  expect(await npmCalls(project)).toHaveLength(1);

  await rm(join(project.root, "node_modules", ".package-lock.json"));
  await run(project, ["--", "hello.mjs"]);
  expect(await npmCalls(project)).toHaveLength(2);
  await project.addFile(
    "package-lock.json",
    JSON.stringify({ packages: { "node_modules/one": { version: "2.0.0", integrity: "sha512-1" } } }),
  );
  await run(project, ["--", "hello.mjs"]);
  expect(await npmCalls(project)).toHaveLength(3);
});

test("two first runs at once install once, and both continue", async () => {
  const project = await makeProject();
  const both = await Promise.all([run(project, ["--", "echo", "one"]), run(project, ["--", "echo", "two"])]);
  expect(both.map(({ stdout }) => stdout)).toEqual(["one\n", "two\n"]);
  expect(await npmCalls(project)).toHaveLength(1);
});

test("an install that fails says why and what to do, without a stack", async () => {
  const project = await makeProject();
  const refused = (n: number) =>
    `npm http fetch GET https://npm.example.com/zod attempt ${n} failed with ENOTFOUND`;
  const offline = await run(project, ["--", "echo", "never"], {
    NPM_SAYS: `${refused(1)}\n${refused(2)}\nnpm error code ENOTFOUND`,
  });
  expect(offline).toMatchObject({ code: 1, stdout: "" });
  // What npm waits for is said at once, and once, with what to do.
  expect(offline.stderr.match(/npm\.example\.com.*/g)).toEqual([
    expect.stringMatching(
      /^npm\.example\.com\/zod \(ENOTFOUND\), and tries again … The package registry cannot/,
    ),
  ]);
  expect(offline.stderr).toContain("npm error code ENOTFOUND");
  expect(offline.stderr).toContain("The package registry cannot be reached");
  expect(offline.stderr).not.toMatch(/^\s+at /m);

  const signer = refused(1).replace("ENOTFOUND", "SELF_SIGNED_CERT_IN_CHAIN");
  const untrusted = await run(project, ["--", "echo", "never"], { NPM_SAYS: signer });
  expect(untrusted.stderr).toMatch(/npm\.example\.com\/zod .*tries again … .*`npm config set cafile FILE`/);
});

test("a signal during the install ends npm and its children before the run itself ends by that signal", async () => {
  const project = await makeProject();
  const child = start(project, ["--", "echo", "never"], { NPM_HANGS: "1" });
  const grandchild = Number(await until(() => readFile(join(project.root, "npm-child"), "utf8")));
  child.kill("SIGTERM");
  expect(await once(child, "exit")).toEqual([null, "SIGTERM"]);
  await until(async () => !(await isAlive(grandchild)));
});

test("the program's exit code and the signal that ended it are ours", async () => {
  const project = await makeProject();
  await project.addFile("seven.ts", "const code: number = 7; process.exit(code);");
  await project.addFile("killed.mjs", 'process.kill(process.pid, "SIGKILL"); setInterval(() => {}, 1000);');
  expect(await run(project, ["--", "seven.ts"])).toMatchObject({ code: 7 });
  expect(await run(project, ["--", "killed.mjs"])).toMatchObject({ code: "SIGKILL" });
});

test("SIGTERM and SIGINT are handed on, and the program may take its time over it", async () => {
  const project = await makeProject();
  const slow = (signal: string) =>
    `process.on("${signal}", () => setTimeout(() => process.exit(3), 100)); setInterval(() => {}, 1000); console.log("up")`;
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    await project.addFile(`${signal}.mjs`, slow(signal));
    const child = start(project, ["--", `${signal}.mjs`]);
    await once(child.stdout, "data");
    child.kill(signal);
    expect(await once(child, "exit")).toEqual([3, null]);
  }
});

test("missing programs are installed with apt-get as root, in one go, and a server is only unpacked", async () => {
  const project = await projectForTests();
  await project.addProgram("apt-get", aptGet);
  await project.addProgram("dpkg-deb", dpkgDeb);
  const done = await run(project, ["--with", "test", "--", "echo", "ready"], { PATH: project.programs });
  expect(done).toMatchObject({ code: 0, stdout: "ready\n" });
  expect((await readFile(join(project.root, "apt-calls"), "utf8")).split("\n")).toEqual([
    expect.stringMatching(/^noninteractive .* update$/),
    expect.stringMatching(
      /^noninteractive .* install --yes --no-install-recommends git curl gh git-lfs redis-tools tmux zsh fish bubblewrap socat php-cli php-mbstring fontconfig ruby sqlite3 openssh-client mandoc kubernetes-client chromium-headless-shell$/,
    ),
    expect.stringMatching(/^noninteractive .* download nginx$/),
    "",
  ]);
  expect(await readFile(join(project.root, "node_modules", ".bin", "nginx"), "utf8")).toContain("a server");
});

test("missing programs that cannot be installed are all named at once, with the line that installs them", async () => {
  const project = await projectForTests();
  const without = await run(project, ["--with", "test", "--", "echo", "never"], { PATH: project.programs });
  expect(without).toMatchObject({ code: 1, stdout: "" });
  for (const word of [
    "  git: ",
    "  gh: ",
    "  git-lfs: ",
    "apt-get install -y git curl gh git-lfs redis-tools tmux zsh fish bubblewrap socat php-cli php-mbstring fontconfig ruby sqlite3 openssh-client mandoc kubernetes-client chromium-headless-shell",
  ])
    expect(without.stderr).toContain(word);
  await project.addProgram("apt-get", "#!/bin/sh\necho 'E: Unable to locate package gh' >&2; exit 100\n");
  const refused = await run(project, ["--with", "test", "--", "echo", "never"], { PATH: project.programs });
  expect(refused.stderr).toContain("Unable to locate package gh");
  expect(refused.stderr).toContain(
    "apt-get install -y git curl gh git-lfs redis-tools tmux zsh fish bubblewrap socat php-cli php-mbstring fontconfig ruby sqlite3 openssh-client mandoc kubernetes-client chromium-headless-shell",
  );
});

test.each([
  ["@anthropic-ai/claude-code", "demo"],
  ["claude-code-oldest", "test"],
])("a stub of %s is mended by its install script, or its absence is explained", async (name, purpose) => {
  const project = purpose === "test" ? await projectForTests() : await makeProject();
  const directory = `node_modules/${name}`;
  await project.addProgram("git", "#!/bin/sh\n");
  await project.addProgram("apt-get", aptGet);
  await project.addProgram("dpkg-deb", dpkgDeb);
  await project.addFile(`${directory}/bin/claude.exe`, "#!/bin/sh\nexit 1\n");
  await project.addFile(`${directory}/install.cjs`, 'console.log("no native package here")');
  const broken = await run(project, ["--with", purpose, "--", "echo", "never"]);
  expect(broken).toMatchObject({ code: 1, stdout: "" });
  expect(broken.stderr).toContain("no native package here");
  expect(broken.stderr).toContain("npm ci --include=optional");
  const mend =
    'const fs = require("fs"); fs.writeFileSync("bin/claude.exe", "#!/bin/sh\\necho 2.0\\n"); fs.chmodSync("bin/claude.exe", 0o755);';
  await project.addFile(`${directory}/install.cjs`, mend);
  expect(await run(project, ["--with", purpose, "--", "echo", "ready"])).toMatchObject({
    code: 0,
    stdout: "ready\n",
  });
});

test("a wrong call is answered with the usage", async () => {
  const project = await makeProject();
  for (const args of [[], ["--with", "nothing", "--", "echo"]]) {
    expect(await run(project, args)).toMatchObject({ code: 1, stderr: expect.stringMatching(/^usage: /) });
  }
});

/** On its PATH are the few programs that the tools themselves call, and an agent CLI is there. */
const projectForTests = async () => {
  const project = await makeProject();
  for (const name of ["sh", "env", "flock", "mkdir", "cp", "sleep", "true", "echo", "chmod", "basename"]) {
    await project.addProgram(name, `#!/bin/sh\nexec /usr/bin/${name} "$@"\n`);
  }
  // So that the tests say the same for root and for everybody else.
  await project.addProgram("sudo", '#!/bin/sh\nshift\nexec "$@"\n');
  for (const name of ["@anthropic-ai/claude-code", "claude-code-oldest"])
    await project.addFile(`node_modules/${name}/bin/claude.exe`, "x".repeat(70_000));
  return project;
};

const aptGet = `#!/bin/sh
echo "$DEBIAN_FRONTEND $@" >> "$HOME/apt-calls"
case "$*" in *" install "*) for name in git curl gh git-lfs redis-check-rdb tmux zsh fish bwrap socat php fc-match ruby sqlite3 ssh-keygen mandoc kubectl chromium-headless-shell; do cp "$0" "$(/usr/bin/dirname "$0")/$name"; done;;
*" download "*) echo > nginx_1.0_all.deb;; esac
`;

const dpkgDeb = `#!/bin/sh
mkdir -p usr/sbin && echo '#!/bin/sh
# a server' > usr/sbin/nginx && chmod +x usr/sbin/nginx
`;

const isAlive = async (pid: number): Promise<boolean> => {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "State: Z");
  return !/^State:\s+Z/m.test(status);
};
