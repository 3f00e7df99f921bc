import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";

const project = join(import.meta.dirname, "..", "..");

/** The end of what vitest prints for these files, from what failed on, and its exit code. */
const run = async (files: Record<string, string>): Promise<{ end: string; status: number | null }> => {
  const root = await temporaryDirectory();
  const config = `
    import { closingLine } from ${JSON.stringify(join(project, "test", "closing-line.ts"))};
    export default { test: { globals: true, reporters: [closingLine] } };`;
  for (const [name, text] of Object.entries({ ...files, "vitest.config.mjs": config }))
    await writeFile(join(root, name), text);
  const vitest = join(project, "node_modules", ".bin", "vitest");
  const { stdout, status } = spawnSync(process.execPath, [vitest, "run", "--root", root], {
    encoding: "utf8",
  });
  return { end: stdout.slice(Math.max(0, stdout.indexOf("What failed:"))).trim(), status };
};

const passing = 'test("passes", () => {});';

test("a run in which all passes ends with its tally, and skipped tests are named", async () => {
  expect(await run({ "a.test.js": passing })).toEqual({ end: "1 passed, 0 failed", status: 0 });
  const skipping = await run({ "a.test.js": `${passing} test.skip("later", () => {});` });
  expect(skipping.end).toBe("1 passed, 0 failed, 1 skipped");
});

test.each([
  [
    "a test",
    { "a.test.js": `${passing} test("adds", () => { expect({ sum: 3 }).toEqual({ sum: 4 }); });` },
    [
      /^- a\.test\.js: adds\n {4}expected \{ sum: 3 \}/m,
      /^ {4}\+ {3}"sum": 3/m,
      /^ {4,}at .*a\.test\.js:1:/m,
    ],
  ],
  [
    "the hook of a suite",
    {
      "a.test.js": `${passing} describe("suite", () => { beforeAll(() => { throw new Error("no server"); }); ${passing} });`,
    },
    [/^- a\.test\.js: suite\n {4}no server/m],
  ],
  [
    "a file that does not load",
    { "a.test.js": passing, "b.test.js": 'import "./missing.js";' },
    [/^- b\.test\.js\n {4}.*missing\.js/m],
  ],
  [
    "an error outside every test",
    {
      "a.test.js": `${passing} setTimeout(() => { throw new Error("late"); }); test("waits", () => new Promise((done) => setTimeout(done, 500)));`,
    },
    [/^- outside every test\n {4}late/m],
  ],
])("%s fails: the run ends with its name, the reason, and a tally that counts it", async (_, files, seen) => {
  const { end, status } = await run(files);
  expect(status).toBe(1);
  expect(end).toMatch(/^What failed:\n/);
  for (const pattern of seen) expect(end).toMatch(pattern);
  expect(end).toMatch(/\n[12] passed, 1 failed(, 1 skipped)?$/);
});

test("what a failure says is bounded", async () => {
  const long = 'test("long", () => { throw new Error("x".repeat(1_000_000)); });';
  const { end } = await run({ "a.test.js": long });
  expect(end.length).toBeLessThan(5000);
  expect(end).toMatch(/\n0 passed, 1 failed$/);
});
