import { execFile } from "node:child_process";
import { access, readdir, readFile, rename } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { tutorialScript } from "../../demo/tutorial-script.ts";
import { afterFile } from "../cleanup.ts";
import { hostVariables, startHost } from "../e2e/hosted.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { shellBlocks, type Block } from "./blocks.ts";
import { startSession } from "./session.ts";

/** Every shell block of README and of the tutorial as written, in one shell, with what `npm run install-user` installs. */
const root = join(import.meta.dirname, "../..");
const blocksOf = async (page: string): Promise<Block[]> =>
  shellBlocks(await readFile(join(root, page), "utf8"));

const readme = await blocksOf("README.md");
const startingWith = (words: string): Block => {
  const block = readme.find(({ script }) => script.startsWith(words));
  if (block === undefined) throw new Error(`README has no block that begins with ${words}`);
  return block;
};
const [install, uninstall, removeData] = ["npm run install-user", "find ", "rm -rf ~/.service"].map(
  startingWith,
) as [Block, Block, Block];
// The demo has its own test, and the other command is `npm test`.
const others = [install, uninstall, removeData, startingWith("npm run demo")];
const usage = readme.filter((block) => !others.includes(block));
// The tutorial installs by the same command: it need not be done twice.
const [first, ...rest] = await blocksOf("docs/use/tutorial.md");
const script = first?.script.replace("npm run install-user\n", "");
const tutorial = [{ ...first, script } as Block, ...rest];

const model = await startFakeModel();
model.script(tutorialScript);
afterFile(() => model.close());
const host = await startHost();
const repository = await host.createRepository("acme", "app", { private: true });
// What README tells its reader to set.
const settings: Record<string, string> = {
  ANTHROPIC_API_KEY: "key-of-the-test",
  ANTHROPIC_BASE_URL: model.url,
  ...hostVariables(host, host.createToken()),
  REPO: repository.url,
};

const session = await startSession({
  ...settings,
  PAGER: "cat",
  DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
});
const { home } = session;
const checkout = join(home, "svc");
const local = join(home, ".local");
const versions = join(local, "share", "svc");
const place = join(versions, "current", "node_modules", "svc-agent");
const type = (text: string, seen: string | null = null) =>
  session.run({ line: 0, title: "", script: text, seen });

test("README installs svc", () => session.run(install));

test("what was installed works in each new shell, without the checkout, with its own Node", async () => {
  const away = join(home, "away");
  await rename(checkout, away);
  const bin = join(local, "bin");
  expect((await readdir(bin)).toSorted()).toEqual(["bridge", "svc"]);
  for (const options of ["-lc", "-ic"]) {
    const { stdout } = await promisify(execFile)("bash", [options, "svc version && which svc bridge"], {
      cwd: home,
      env: { HOME: home, PATH: "/usr/bin:/bin" },
    });
    expect(stdout).toBe(`svc 0.1.0\n${join(bin, "svc")}\n${join(bin, "bridge")}\n`);
  }
  await rename(away, checkout);
});

test("npm packs the same, and leaves the repository as it was, with one tarball beside it", async () => {
  await type("cd ~/svc && npm pack --silent\n");
  const read = (directory: string) => readFile(join(directory, "package.json"), "utf8");
  expect(await read(checkout)).toBe(await read(root));
  const made = (await readdir(checkout)).filter((name) => /^package\.json\.|building|\.tgz$/.test(name));
  expect(made).toEqual([expect.stringMatching(/^svc-agent-\d+\.\d+\.\d+\.tgz$/)]);
  const { stdout } = await promisify(execFile)("tar", ["-tzf", join(checkout, made[0] ?? "")]);
  const installed = await readdir(place, { recursive: true, withFileTypes: true });
  const files = installed
    .filter((entry) => entry.isFile())
    .map((entry) => `package/${relative(place, join(entry.parentPath, entry.name))}`);
  expect(files.toSorted()).toEqual(stdout.trim().split("\n").toSorted());
});

test("the package asks for no other, and has all that the program and its pages need, and no sources but tests", async () => {
  const manifest = JSON.parse(await readFile(join(place, "package.json"), "utf8")) as object;
  expect(Object.keys(manifest).filter((key) => /dependencies|scripts|private|allow/i.test(key))).toEqual([]);
  expect(manifest).toMatchObject({
    name: "svc-agent",
    bin: { svc: "dist/svc.mjs", bridge: "dist/bridge.mjs" },
    engines: { node: ">=24" },
  });
  const files = await readdir(place, { recursive: true });
  expect(files).not.toContain("node_modules");
  const needed =
    "LICENSES.txt completion/bridge.bash completion/svc.bash docs-ui/swagger-ui-bundle.js web/index.html.br prebuilds/linux-arm64/fs-native-extensions.node prebuilds/linux-x64/fs-native-extensions.node profiles/code/profile.yml profiles/review/profile.yml";
  expect(files).toEqual(expect.arrayContaining(needed.split(" ").map((name) => `dist/${name}`)));
  expect(files.filter((file) => /(?<!\.test)\.ts$/.test(file))).toEqual([]);
  const licences = await readFile(join(place, "dist", "LICENSES.txt"), "utf8");
  for (const name of ["zod", "hono", "fs-native-extensions", "swagger-ui-dist", "react-dom"])
    expect(licences).toMatch(new RegExp(`^${name} \\d`, "m"));
  expect(licences).not.toContain("has no licence file");
  const manual = await readFile(join(local, "share/man/man1/svc.1"), "utf8");
  expect(manual).toContain(".SS svc worktrees prepare");

  const pages = files.filter((file) => file.endsWith(".md"));
  expect(pages).toEqual(expect.arrayContaining(["README.md", "docs/use/tutorial.md", "docs/use/jobs.md"]));
  expect((await Promise.all(pages.map(brokenLinks))).flat()).toEqual([]);
});

/** Links of a page of the package to files that it does not have. */
const brokenLinks = async (page: string): Promise<string[]> => {
  const text = await readFile(join(place, page), "utf8");
  const paths = [...text.matchAll(/\]\((?!\w+:)([^)\s#]+)/g)].map(([, path = ""]) => path);
  const broken = (path: string): Promise<string[]> =>
    access(join(place, dirname(page), path)).then(
      () => [],
      () => [`${page}: ${path}`],
    );
  return (await Promise.all(paths.map(broken))).flat();
};

test("a command loads no file that it does not need", async () => {
  // Files that are opened, not milliseconds: those depend on what else the machine does.
  const listing = `data:text/javascript,import { registerHooks } from "node:module";
    registerHooks({ load: (url, context, next) => { if (url.startsWith("file:")) console.error(url.split("/").pop()); return next(url, context); } });`;
  const { stderr } = await promisify(execFile)(process.execPath, [
    "--import",
    listing,
    join(place, "dist", "svc.mjs"),
    "version",
  ]);
  expect(stderr.trim().split("\n").length).toBeGreaterThan(2);
  expect(stderr).not.toMatch(/zod|schemas|orchestrator|client|settings|yaml|terminal-view|commander/);
});

test.each(usage)("line $line of README.md does what it says: $title", (block) => session.run(block));

test("the page of the REST interface comes with its style; then the service stops", async () => {
  const page = await fetch(`http://127.0.0.1:${session.port}/docs/swagger-ui.css`);
  expect([page.status, (await page.text()).length > 10_000]).toEqual([200, true]);
  await type("kill %1 && wait %1\n");
});

test.each(tutorial)("line $line of docs/use/tutorial.md does what it says: $title", async (block) => {
  // The tutorial's reader has set nothing.
  if (block === tutorial[0]) await type(`cd ~/svc && unset ${Object.keys(settings).join(" ")}\n`);
  await session.run(block);
});

test("stand-ins that are started again in the same shell play the model again; then nothing runs any more", async () => {
  await type(
    'cd ~/svc && eval "$(npm run --silent stand-ins)" && kill $STAND_INS_PID\n',
    "Model: NONE. A script plays it: it does the tasks of docs/use/tutorial.md, and little else.\n…\n",
  );
  await session.isAlone();
});

test("svc update names the installer; what npm has installed for all is updated by it", async () => {
  await type(
    "cd ~/svc && unset KV_URL && ! svc update --rollback\n",
    "svc: Update this svc by git pull and npm run install-user in its checkout, …\n",
  );
  // As docs/operate/deployment.md installs it, with Node 24 on the PATH.
  await type(
    `PATH=~/.local/share/svc/current/bin:$PATH
    npm install --global --prefix ~/usr ./svc-agent-*.tgz && ~/usr/bin/svc update --source ./svc-agent-*.tgz\n`,
    "…\nsvc is 0.1.0, it was 0.1.0.…\n",
  );
});

test("README leaves nothing of it over, and no data after its last line", async () => {
  await session.run(uninstall);
  const left = await readdir(local, { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => !entry.isDirectory()).map(({ name }) => name)).toEqual([]);
  for (const name of [".profile", ".bashrc"]) expect(await readFile(join(home, name), "utf8")).toBe("");
  const own = [".service", "service-repos", ".bridge"];
  const data = async () => (await readdir(home)).filter((name) => own.includes(name)).toSorted();
  expect(await data()).toEqual([".service", "service-repos"]);
  await session.run(removeData);
  expect(await data()).toEqual([]);
});
