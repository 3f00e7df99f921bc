import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { cuttableWay } from "../cuttable.ts";
import { lastingPort } from "../lasting-port.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { openPage } from "./open-page.ts";

/* What every page stands on: its files, the key, the connection. In a real browser, with the real service. */

const key = "key-of-the-tests";
const [keyedPort, port] = [String(await lastingPort()), String(await lastingPort())];
const openEnv = { SERVICE_PORT: port, AGENT_MODE: "true" };
const [keyed, open, browser] = await Promise.all([
  startService({ env: { SERVICE_API_KEYS: key, SERVICE_PORT: keyedPort } }),
  startService({ env: openEnv }),
  openBrowser(),
]);
const built = join(dirname(process.env["TEST_PROGRAM"] ?? ""), "web");

test("the first page weighs at most 120 KB, packed, and is usable 0.3 s after it is asked for", async () => {
  const { page } = await openPage(browser, open, "/ui/jobs");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  const loaded = await page.evaluate<string[]>(
    `performance.getEntriesByType("resource").map(({ name }) => /\\/ui\\/(assets\\/.+)/.exec(name)?.[1]).filter(Boolean)`,
  );
  const files = await Promise.all(["index.html", ...loaded].map((name) => readFile(join(built, name))));
  expect(files.reduce((sum, file) => sum + gzipSync(file).length, 0)).toBeLessThan(120_000);
  expect(loaded.length).toBeGreaterThan(2);
  await page.addInitScript(`new MutationObserver((_, seen) => {
    if (document.querySelector("main h2") === null) return;
    seen.disconnect();
    window.usable = performance.now();
  }).observe(document, { subtree: true, childList: true });`);
  // The quickest of some: on a machine that others use most are slower, by a third still.
  await until(
    async () => {
      await page.reload();
      await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
      return (await page.evaluate<number>("usable")) < 400;
    },
    { what: "a load of less than 400 ms" },
  );
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
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.keyboard.type(key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  expect(page.url()).not.toContain(key);
  const conversations = (act: string) =>
    page.evaluate<number>(`new Promise((resolve) => {
      const opened = indexedDB.open("svc.chat", 1);
      opened.onupgradeneeded = () => {
        opened.result.createObjectStore("conversations", { keyPath: "id" });
        opened.result.createObjectStore("turns", { keyPath: ["conversation", "at"] });
      };
      opened.onsuccess = () => {
        const asked = opened.result.transaction("conversations", "readwrite").objectStore("conversations").${act};
        asked.onsuccess = () => {
          opened.result.close();
          resolve(asked.result);
        };
      };
    })`);
  await conversations(`put({ id: "a", title: "Secret", model: "m", at: 1 })`);
  page.once("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Forget key" }).click();
  await field.waitFor();
  expect(await conversations("count()")).toBe(0);
  expect(faults).toEqual([]);
});

test("by keys alone: the list of shortcuts, the colours, the way past the navigation; a page that there is not", async () => {
  const { page } = await openPage(browser, open, "/ui/");
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Shortcuts" }).waitFor();
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

  // Without a transcript service there is no page of it, and its address says how to get one.
  await page.goto(`${open.url}/ui/transcripts`);
  await page.getByRole("heading", { name: "This service shows no transcripts" }).waitFor();
  await page.getByText("SERVICE_BRIDGE_URL").waitFor();
  expect(await page.getByRole("navigation").getByRole("link").allTextContents()).not.toContain("Transcripts");
});

test("a refusal, garbage and an answer that never comes are said to be so, and each is tried again", async () => {
  const { page } = await openPage(browser, open, "/ui/usage");
  await page.getByRole("heading", { name: "No runs" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  // A minute of the page's patience takes three seconds.
  await page.addInitScript(`{
    const { timeout } = AbortSignal;
    AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 20);
  }`);
  const answers = [
    {
      title: "This is not permitted",
      answer: {
        status: 403,
        json: { success: false, error: "Not with this key.", code: "insufficient_scope" },
      },
    },
    { title: "This could not be read", answer: { body: "<h1>Welcome to our network</h1>" } },
    { title: "The service does not answer", words: "took too long", answer: null },
  ];
  for (const { title, words = "", answer } of answers) {
    await page.route("**/usage?*", (route) => (answer === null ? undefined : route.fulfill(answer)));
    await page.reload();
    await page.getByRole("alert").filter({ hasText: words }).getByRole("heading", { name: title }).waitFor();
    await page.unroute("**/usage?*");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", { name: "No runs" }).waitFor();
  }
  // What is JSON, and not what was asked for, fails the page and leaves the rest in use.
  await page.route("**/usage?*", (route) => route.fulfill({ json: {} }));
  await page.reload();
  await page.getByRole("heading", { name: "This page failed" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByRole("link", { name: "Jobs", exact: true }).click();
  await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
});

test("a key that is withdrawn while the page is open is asked for anew, and all is where it was", async () => {
  const { page } = await openPage(browser, keyed, "/ui/jobs?status=failed");
  const field = page.getByLabel("One of its API keys");
  await field.fill(key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "No job fits" }).waitFor();
  await page.keyboard.press("n");
  await page.getByLabel("What should be done").fill("Half a thought");
  await keyed.stop();
  const env = { SERVICE_PORT: keyedPort, SERVICE_API_KEYS: "another-key" };
  await startService({ home: keyed.home, env });
  await field.fill(key);
  await page.keyboard.press("Enter");
  await page.getByText("not one of the service's").waitFor();
  await field.fill("another-key");
  await page.keyboard.press("Enter");
  await field.waitFor({ state: "detached" });
  expect(await page.getByLabel("What should be done").inputValue()).toBe("Half a thought");
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { name: "No job fits" }).waitFor();
  expect(page.url()).toBe(`${keyed.url}/ui/jobs?status=failed`);
});

test("over a restart of the service what is typed stays; the page says when the service is away, and goes on when it is back", async () => {
  const { home } = open;
  const [{ page }, { page: chat }, { page: old }] = await Promise.all([
    openPage(browser, open),
    openPage(browser, open, "/ui/chat"),
    openPage(browser, open),
  ]);
  await Promise.all([page, old].map((tab) => tab.getByRole("heading", { name: "No jobs yet" }).waitFor()));
  await page.keyboard.press("n");
  await page.getByLabel("What should be done").fill("Typed before the restart");
  await chat.getByLabel("Message", { exact: true }).fill("scenario: echo");
  await open.stop();
  await Promise.all([page, old].map((tab) => tab.getByText("The service does not answer").waitFor()));
  expect(await accessibilityFaults(old)).toEqual([]);
  // Sent while the service is away, it is sent again.
  await page.keyboard.press("Control+Enter");
  // A page whose files are not here yet waits for them.
  await old.getByRole("link", { name: "Fleet" }).click();
  await old.getByText("Waiting for the service").waitFor();

  await startService({ home, env: openEnv });
  await page.getByRole("heading", { name: "Typed before the restart" }).waitFor();
  await chat.keyboard.press("Enter");
  await chat.locator(".final").waitFor();
  await old.getByRole("heading", { name: "Fleet" }).waitFor();
});

test("after an update of the service the page offers the new one, also where a file of the old one is missing", async () => {
  const way = await cuttableWay(Number(port));
  const { page } = await openPage(browser, { url: `http://127.0.0.1:${way.port}` });
  await page.getByLabel("Search tasks").waitFor();
  await page.route("**/ui/", (route) => route.fulfill({ body: "<script src=/ui/assets/newer.js>" }));
  await page.route("**/ui/assets/*", (route) => route.fulfill({ status: 404, json: {} }));
  way.cut();
  await page.getByText("The service does not answer").waitFor();
  way.mend();
  await page.getByRole("button", { name: "Load the new page" }).waitFor();
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByRole("heading", { name: "The service was updated" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.unrouteAll();
  await page.getByRole("button", { name: "Load again" }).click();
  await page.getByRole("heading", { name: "Usage" }).waitFor();
  expect(await page.getByRole("button", { name: "Load the new page" }).count()).toBe(0);
});
