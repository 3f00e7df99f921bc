import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "./cleanup.ts";
import { compileCache } from "./compile-cache.ts";
import { temporaryDirectory } from "./temporary.ts";
import { until } from "./until.ts";

/** What packing does to package.json when it does not get to its end; test/docs/shell.test.ts packs and installs. */
const root = join(import.meta.dirname, "..");
let repository: string;
let original: string;
const env = { PATH: process.env["PATH"], LANG: "C.UTF-8", NODE_COMPILE_CACHE: compileCache };

beforeAll(async () => {
  repository = await temporaryDirectory();
  await mkdir(join(repository, "src"));
  for (const name of ["package.json", "tools/pack", "src/lib"])
    await cp(join(root, name), join(repository, name), { recursive: true });
  await symlink(join(root, "node_modules"), join(repository, "node_modules"));
  await writeFile(join(repository, "tools", "build.ts"), "export const build = async () => undefined;\n");
  original = await manifest();
});

const manifest = (): Promise<string> => readFile(join(repository, "package.json"), "utf8");
const leftovers = async (): Promise<string[]> =>
  (await readdir(repository)).filter((name) => name.startsWith("package.json."));

test("packing that is killed between its steps puts package.json back", async () => {
  // Stands for npm: calls prepack through a shell, as npm does, and never gets to postpack.
  const npmThatHangs = spawn(
    process.execPath,
    [
      "-e",
      `require("node:child_process").spawn("sh", ["-c", "node tools/pack/prepack.ts"], { stdio: "inherit" }).on("exit", () => console.log("packed")); setInterval(() => {}, 1000)`,
    ],
    { cwd: repository, env, stdio: ["ignore", "pipe", "inherit"] },
  );
  afterFile(() => npmThatHangs.kill("SIGKILL"));
  await once(npmThatHangs.stdout, "data");
  // Still swapped: the guard must not be rash.
  expect(await leftovers()).toEqual(["package.json.aside"]);
  expect(await manifest()).not.toContain("devDependencies");
  const gone = once(npmThatHangs, "exit");
  npmThatHangs.kill("SIGKILL");
  await gone;
  await until(async () => (await manifest()) === original && (await leftovers()).length === 0);
});

test("packing refuses to call a tarball good when package.json was edited in the meantime, and keeps the edit", async () => {
  const run = promisify(execFile);
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
