import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { accessibilityFaults, openBrowser } from "../browser.ts";
import { lastingPort } from "../lasting-port.ts";
import { startService } from "../service.ts";
import { openPage } from "./open-page.ts";

/* What every page stands on: its files, the key, the connection. In a real browser, with the real service. */

const key = "key-of-the-tests";
const port = String(await lastingPort());
const [keyed, open, browser] = await Promise.all([
  startService({ env: { SERVICE_API_KEYS: key } }),
  startService({ env: { SERVICE_PORT: port } }),
  openBrowser(),
]);
const built = join(dirname(process.env["TEST_PROGRAM"] ?? ""), "web");

test("the first page weighs at most 120 KB, packed", async () => {
  const { page } = await openPage(browser, open, "/ui/jobs");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  const loaded = await page.evaluate<string[]>(
    `performance.getEntriesByType("resource").map(({ name }) => /\\/ui\\/(assets\\/.+)/.exec(name)?.[1]).filter(Boolean)`,
  );
  const files = await Promise.all(["index.html", ...loaded].map((name) => readFile(join(built, name))));
  expect(files.reduce((sum, file) => sum + gzipSync(file).length, 0)).toBeLessThan(120_000);
  expect(loaded.length).toBeGreaterThan(2);
});

test("the shell answers every address below /ui without a key; its files are packed and kept, others missing", async () => {
  const shell = await fetch(`${keyed.url}/ui/jobs/some-id`);
  expect(shell.headers.get("content-security-policy")).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
  );
  expect(shell.headers.get("cache-control")).toBe("no-cache");
  const html = await shell.text();
  const [, script = ""] = /src="(\/ui\/assets\/[^"]+)"/.exec(html) ?? [];
  const bodies = await Promise.all(
    [
      ["br", "br"],
      ["gzip, br;q=0", "gzip"],
      ["identity", null],
    ].map(async ([accepted, used]) => {
      const answer = await fetch(keyed.url + script, { headers: { "accept-encoding": accepted ?? "" } });
      expect(Object.fromEntries(answer.headers)).toMatchObject({
        "cache-control": "public, max-age=31536000, immutable",
        "content-type": "text/javascript; charset=utf-8",
        "x-content-type-options": "nosniff",
        vary: "Accept-Encoding",
      });
      expect(answer.headers.get("content-encoding")).toBe(used);
      return await answer.text();
    }),
  );
  expect(new Set(bodies).size).toBe(1);
  for (const path of ["/ui/assets/nothing.js", "/ui/assets/..%2findex.html", "/ui/assets/..%2f..%2fsvc.mjs"])
    expect((await fetch(keyed.url + path)).status).toBe(404);
  expect((await fetch(`${keyed.url}/ui/`, { method: "POST", headers: { "x-api-key": key } })).status).toBe(
    405,
  );
  expect((await fetch(`${keyed.url}/jobs`)).status).toBe(401);
});

test("a browser is sent from the root to the jobs, and asked for the key; a wrong one is said to be wrong", async () => {
  const { page, faults } = await openPage(browser, keyed);
  await page.waitForURL("**/ui/jobs");
  const field = page.getByLabel("One of its API keys");
  await field.fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("not one of the service's").waitFor();
  expect(await field.inputValue()).toBe("");
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  expect(page.url()).not.toContain(key);
  await page.getByRole("button", { name: "Forget key" }).click();
  await field.waitFor();
  expect(faults).toEqual([]);
});

test("by keys alone: the list of shortcuts, the colours, the way past the navigation", async () => {
  const { page } = await openPage(browser, open, "/ui/");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const background = () =>
    page.evaluate<string>("getComputedStyle(document.documentElement).backgroundColor");
  const before = await background();
  await page.keyboard.press("t");
  await page.keyboard.press("t");
  expect(await background()).not.toBe(before);
  await page.reload();
  expect(await background()).not.toBe(before);
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
});

test("it says when the service is away, goes on by itself when it is back, and offers a newer page", async () => {
  const { home } = open;
  const [{ page }, { page: old }] = await Promise.all([openPage(browser, open), openPage(browser, open)]);
  const tabs = [page, old];
  await Promise.all(tabs.map((tab) => tab.getByRole("heading", { name: "No jobs yet" }).waitFor()));
  await open.stop();
  const behind = page.getByText("The service does not answer");
  await behind.waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await old.route("**/ui/", (route) => route.fulfill({ body: "<script src=/ui/assets/newer.js>" }));
  const { client } = await startService({ home, env: { SERVICE_PORT: port } });
  await behind.waitFor({ state: "detached" });
  await client.run_task({ task: "Seen after the restart" });
  await page.getByRole("link", { name: "Seen after the restart" }).waitFor();
  await old.getByRole("button", { name: "Load the new page" }).click();
  await old.getByRole("link", { name: "Seen after the restart" }).waitFor();
});
