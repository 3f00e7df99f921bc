import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, readdir, readFile, readlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { copyCheckout } from "./checkout.ts";
import { svc } from "./cli/run-svc.ts";
import { compileCache } from "./compile-cache.ts";
import { makeRemote } from "./remote.ts";
import { spawnService } from "./service-process.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";
import { afterFile } from "./cleanup.ts";

const run = promisify(execFile);

/** npm on this Node, with no settings of this machine, and nowhere to download from. */
const npm = async (cwd: string, ...args: string[]): Promise<string> => {
  const { stdout } = await run("npm", [...args, "--offline", "--no-audit", "--no-fund"], {
    cwd,
    env: await environment(),
  });
  return stdout;
};

let home: string;
const environment = async (): Promise<NodeJS.ProcessEnv> => {
  home ??= await temporaryDirectory();
  const path = `${dirname(process.execPath)}:${process.env["PATH"]}`;
  return { PATH: path, HOME: home, LANG: "C.UTF-8", NODE_COMPILE_CACHE: compileCache };
};

/** The repository's copy: packing swaps its package.json for a moment, which nothing else should see. */
let repository: string;
let original: string;
let packed: string[];
let tarball: string;
let installed: string;

beforeAll(async () => {
  repository = await temporaryDirectory();
  await copyCheckout(repository);
  original = await readFile(join(repository, "package.json"), "utf8");
  const target = await temporaryDirectory();
  await npm(repository, "pack", "--pack-destination", target);
  packed = await readdir(target);
  tarball = join(target, packed[0] ?? "");
  installed = await temporaryDirectory();
  await npm(target, "install", "--global", "--prefix", installed, tarball);
});

const program = (): string => join(installed, "bin", "svc");
const packageDirectory = (): string => join(installed, "lib", "node_modules", "svc-agent");
const manifestOf = async (directory: string): Promise<Record<string, unknown>> =>
  JSON.parse(await readFile(join(directory, "package.json"), "utf8")) as Record<string, unknown>;

describe("the published package", () => {
  test("is one tarball", () => {
    expect(packed).toEqual([expect.stringMatching(/^svc-agent-\d+\.\d+\.\d+\.tgz$/)]);
  });

  test("is one package that asks for no other and runs nothing when it is installed", async () => {
    expect(await readdir(join(installed, "lib", "node_modules"))).toEqual(["svc-agent"]);
    expect(await readdir(packageDirectory())).not.toContain("node_modules");
    const manifest = await manifestOf(packageDirectory());
    expect(Object.keys(manifest).filter((key) => /dependencies|scripts|private|allow/i.test(key))).toEqual(
      [],
    );
    expect(manifest).toMatchObject({
      name: "svc-agent",
      bin: { svc: "dist/svc.mjs", bridge: "dist/bridge.mjs" },
      engines: { node: ">=24" },
    });
  });

  test("has the profiles, the native files of both platforms and the licences in it, and no sources but tests", async () => {
    const files = await readdir(packageDirectory(), { recursive: true });
    expect(files).toEqual(
      expect.arrayContaining([
        "dist/LICENSES.txt",
        "dist/completion/bridge.bash",
        "dist/completion/svc.bash",
        "dist/man/bridge.1",
        "dist/man/svc.1",
        "dist/docs-ui/swagger-ui-bundle.js",
        "dist/docs-ui/swagger-ui.css",
        "dist/web/index.html.br",
        "dist/prebuilds/linux-arm64/fs-native-extensions.node",
        "dist/prebuilds/linux-x64/fs-native-extensions.node",
        "dist/profiles/code/profile.yml",
        "dist/profiles/review/profile.yml",
      ]),
    );
    expect(files.filter((file) => /(?<!\.test)\.ts$/.test(file))).toEqual([]);
    const licences = await readFile(join(packageDirectory(), "dist", "LICENSES.txt"), "utf8");
    for (const name of [
      "commander",
      "zod",
      "hono",
      "pino",
      "fs-native-extensions",
      "swagger-ui-dist",
      "react-dom",
    ]) {
      expect(licences).toMatch(new RegExp(`^${name} \\d`, "m"));
    }
    expect(licences).not.toContain("has no licence file");
  });

  test("has every file that its pages link to", async () => {
    const files = await readdir(packageDirectory(), { recursive: true });
    const pages = files.filter((file) => file.endsWith(".md"));
    expect(pages).toEqual(expect.arrayContaining(["README.md", "docs/use/tutorial.md", "docs/use/jobs.md"]));
    const broken = await Promise.all(
      pages.map(async (page) => (await brokenLinks(page)).map((link) => [page, link])),
    );
    expect(broken.flat()).toEqual([]);
  });

  test("brings its manual pages where man looks for them", async () => {
    const pages = join(installed, "share", "man", "man1");
    expect((await readdir(pages)).toSorted()).toEqual(["bridge.1", "svc.1"]);
    expect(await readFile(join(pages, "svc.1"), "utf8")).toContain(".SS svc worktrees prepare");
  });

  test("runs, and starts without what the command does not need", async () => {
    const { version } = await manifestOf(packageDirectory());
    const env = { PATH: String((await environment())["PATH"]) };
    expect(await svc(["version"], { program: [program()], env })).toEqual({
      code: 0,
      stdout: `svc ${String(version)}\n`,
      stderr: "",
    });
    // Files that are opened, not milliseconds: those depend on what else the machine does.
    const listing = `data:text/javascript,import { registerHooks } from "node:module";
      registerHooks({ load: (url, context, next) => { if (url.startsWith("file:")) console.error(url.split("/").pop()); return next(url, context); } });`;
    const { stderr } = await svc(["version"], {
      program: [process.execPath, "--import", listing, program()],
    });
    const loaded = stderr.trim().split("\n");
    expect(loaded.length).toBeGreaterThan(2);
    expect(
      loaded.filter((file) =>
        /zod|schemas|orchestrator|client|settings|yaml|terminal-view|commander/.test(file),
      ),
    ).toEqual([]);
  });

  test("shows the page of its REST interface", async () => {
    await using service = await installedService();
    const page = await fetch(`${service.url}/docs/swagger-ui.css`);
    expect(page.status).toBe(200);
    expect((await page.text()).length).toBeGreaterThan(10_000);
  });

  test("does a job from end to end: the branch is at the remote", async () => {
    await using service = await installedService();
    const remote = await makeRemote();
    const env = { PATH: String((await environment())["PATH"]), SERVICE_PORT: new URL(service.url).port };
    const { code, stdout } = await svc(["run", "Do the default thing", "-r", remote.path, "--wait"], {
      program: [program()],
      env,
    });
    expect(stdout).toMatch(/^Status +succeeded$/m);
    expect(code).toBe(0);
    const branch = /^Branch +(\S+)$/m.exec(stdout)?.[1];
    expect(await remote.branches()).toEqual(["main", branch]);
  });

  test("can be updated, and npm takes the programs away again", async () => {
    const prefix = await temporaryDirectory();
    await npm(prefix, "install", "--global", "--prefix", prefix, tarball);
    const own = [join(prefix, "bin", "svc")];
    const env = { ...(await environment()), npm_config_offline: "true" } as Record<string, string>;
    expect(await svc(["update", "--source", tarball], { program: own, env })).toMatchObject({ code: 0 });
    expect(await readlink(join(prefix, "bin", "svc"))).toBe("../lib/svc-agent/current/dist/svc.mjs");
    expect(await svc(["version"], { program: own, env })).toMatchObject({ code: 0 });
    expect(await readFile(join(prefix, "share", "man", "man1", "svc.1"), "utf8")).toContain("svc update");
    await npm(prefix, "uninstall", "--global", "--prefix", prefix, "svc-agent");
    expect(await readdir(join(prefix, "bin"))).toEqual([]);
    expect(await readdir(join(prefix, "lib", "node_modules"))).toEqual([]);
  });
});

/** Links of a page of the package to files that it does not have. */
const brokenLinks = async (page: string): Promise<string[]> => {
  const text = await readFile(join(packageDirectory(), page), "utf8");
  const paths = [...text.matchAll(/\]\(([^)\s#]+)/g)].flatMap(([, path = ""]) =>
    /^\w+:/.test(path) ? [] : path,
  );
  const isThere = await Promise.all(
    paths.map((path) =>
      access(join(packageDirectory(), dirname(page), path)).then(
        () => true,
        () => false,
      ),
    ),
  );
  return paths.filter((_, number) => !isThere[number]);
};

/** The installed program as a service, ended with the scope. */
const installedService = async () => {
  const service = await spawnService({
    home: await temporaryDirectory(),
    program: [process.execPath, program()],
  });
  afterFile(() => service.kill());
  return { url: service.url, [Symbol.asyncDispose]: async () => void (await service.stop()) };
};

describe("packing", () => {
  const manifest = (): Promise<string> => readFile(join(repository, "package.json"), "utf8");
  const leftovers = async (): Promise<string[]> =>
    (await readdir(repository)).filter((name) => /^package\.json\.|building/.test(name));

  test("leaves the repository as it was", async () => {
    expect(await manifest()).toBe(original);
    expect(await leftovers()).toEqual([]);
  });

  test("that is killed between its steps puts package.json back", async () => {
    // Stands for npm: calls prepack through a shell, as npm does, and never gets to postpack.
    const npmThatHangs = spawn(
      process.execPath,
      [
        "-e",
        `require("node:child_process").spawn("sh", ["-c", "node tools/pack/prepack.ts"], { stdio: "inherit" }); setInterval(() => {}, 1000)`,
      ],
      { cwd: repository, env: await environment(), stdio: "inherit" },
    );
    afterFile(() => npmThatHangs.kill("SIGKILL"));
    await until(
      async () =>
        (await leftovers()).includes("package.json.aside") && !(await manifest()).includes("devDependencies"),
      { seconds: 30 },
    );
    // Still swapped: the guard must not be rash.
    expect(await manifest()).not.toBe(original);
    const gone = once(npmThatHangs, "exit");
    npmThatHangs.kill("SIGKILL");
    await gone;
    await until(async () => (await manifest()) === original && (await leftovers()).length === 0);
  });

  test("refuses to call a tarball good when package.json was edited in the meantime, and keeps the edit", async () => {
    const env = await environment();
    const edited = `{ "type": "module", "name": "edited" }`;
    const swap = `import { swapIn } from "./tools/pack/swap.ts"; await swapIn(process.cwd());
      const fs = await import("node:fs"); fs.writeFileSync("package.json", ${JSON.stringify(edited)});`;
    await run("node", ["--input-type=module", "-e", swap], { cwd: repository, env });
    const post = run("node", ["tools/pack/postpack.ts"], { cwd: repository, env });
    await expect(post).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringContaining("pack again") as string,
    });
    expect(await manifest()).toBe(edited);
    expect(await leftovers()).toEqual([]);
  });
});
