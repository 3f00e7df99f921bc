import { truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openPage, show } from "./open-page.ts";
import { storeJobs } from "./stored-jobs.ts";

/* The list of jobs and the form for a new one, in a real browser, with the real service. */

const further = {
  repo_url: "https://github.com/acme/lib",
  base_ref: "main",
  path: null,
  branch: "service/00000000",
  base_sha: null,
  commit_sha: null,
  cached_clone: null,
  pr_url: null,
  error: null,
};
const home = await temporaryDirectory();
const red = { exit_code: 1, duration_ms: 3000, log: "1 failed: the date test" };
await storeJobs(home, 250, {
  outcome: "changed",
  checks: [{ name: "tests", status: "failed_before", ...red, before: { status: "failed", ...red } }],
  warnings: ["tests was red before and still is"],
  repositories: [further],
});
const [service, browser] = await Promise.all([startService({ home }), openBrowser()]);
const listed = '[role="row"]:not(.heads)';

test("the list has the sizes of the design, scrolls to its last job page by page, and few rows are made; a page that fails is tried again in place", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  const rows = page.locator(listed);
  await rows.first().waitFor();
  expect(await rows.count()).toBeLessThan(60);
  await page.getByText("100+ jobs").waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  // 13 px, 11 for labels; rows of 36 px.
  const sizes = await page.evaluate(
    `["html", ".job-row:not(.heads) .task", ".job-row.heads"].map((each) => getComputedStyle(document.querySelector(each)).fontSize)`,
  );
  expect(sizes).toEqual(["16px", "13px", "11px"]);
  expect((await rows.first().boundingBox())?.height).toBe(36);
  // It counts no lines where there are none.
  const newest = rows.filter({ hasText: "00000000" });
  await newest.getByText("1 file", { exact: true }).waitFor();
  const link = newest.getByRole("link", { name: "7" });
  expect(await link.getAttribute("href")).toBe("https://github.com/acme/app/pull/7");
  const furtherPages = /\/jobs\?.*cursor=./;
  const toEnd = () => page.evaluate("document.querySelector('.job-table').scrollTo(0, 1e9)");
  await page.route(furtherPages, (route) => route.fulfill({ status: 500, body: "no JSON" }));
  await toEnd();
  await page.getByRole("alert").getByText("More could not be read").waitFor();
  await page.getByText("100+ jobs").waitFor();
  await page.unroute(furtherPages);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });
  await until(async () => {
    await toEnd();
    return (await page.locator('a[href^="/ui/jobs/000000f9-"]').count()) > 0;
  });
  await page.getByText("250 jobs").waitFor();
  expect(await rows.count()).toBeLessThan(60);
  expect(faults).toEqual([]);
});

test("a job that has succeeded with a check that is red as before is marked in the list and on its page", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  const row = page.locator(listed).filter({ hasText: "00000000" });
  const words = "tests was red before and still is";
  await row.waitFor();
  expect(await row.locator(".fault").allInnerTexts()).toEqual(["! ", ` → ${words}`]);
  expect(await page.locator(`${listed} strong.fault`).count()).toBe(1);
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await row.getByRole("link", { name: /^!/ }).click();
  await page.getByRole("status").getByText("succeeded").waitFor();
  await page.locator(".facts .fault").getByText(words).waitFor();
  await page.getByRole("region", { name: "Error and warnings" }).getByText(`Warning: ${words}`).waitFor();
  await page.getByRole("tab", { name: "Details" }).click();
  await page.locator("details[open] > .fault").getByText("tests: failed, as before the change").waitFor();
  await page.getByText(red.log).waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  expect(faults).toEqual([]);
});

test("j, k and Enter go through the list; filters and search narrow it, stand in the address, and come back with it", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs");
  await page.getByLabel("Status").selectOption("failed");
  await page.waitForURL("**/ui/jobs?status=failed");
  const [first] = (await service.client.list_jobs({ status: "failed", limit: 1 })).jobs;
  await page.locator(`${listed} a[href$="${first?.id}"]`).waitFor();
  for (const pressed of ["j", "j", "k"]) await page.keyboard.press(pressed);
  await page.locator(`${listed}[data-selected="true"] a[href$="${first?.id}"]`).waitFor();
  expect(await page.evaluate<string>("document.activeElement.href")).toContain(first?.id);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/ui/jobs/${first?.id}`);
  await page.goBack();
  await page.getByLabel("Profile").selectOption("review");
  await page.getByLabel("Search tasks").fill("temporal");
  await page.waitForURL("**/ui/jobs?status=failed&profile=review&q=temporal");
  const expected = await service.client.list_jobs({
    status: "failed",
    profile: "review",
    q: "temporal",
    limit: 100,
  });
  const count = page.getByText(`${expected.count} jobs`, { exact: true });
  await count.waitFor();
  await page.reload();
  await count.waitFor();
  expect(await page.getByLabel("Profile").inputValue()).toBe("review");
  await page.getByLabel("Search tasks").fill("no such words");
  await page.getByRole("button", { name: "Show all jobs" }).click();
  await page.getByText("100+ jobs").waitFor();
  await page.goBack();
  await page.waitForURL("**/ui/jobs?status=failed&profile=review&q=*");
});

test("the change of each of a job's repositories is shown, and none is said to be nothing where another has one", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  const diff = "diff --git a/lib.txt b/lib.txt\n--- a/lib.txt\n+++ b/lib.txt\n@@ -1 +1 @@\n-old\n+new\n";
  const file = {
    path: "lib.txt",
    old_path: null,
    status: "modified",
    insertions: 1,
    deletions: 1,
    binary: false,
  };
  const answer = {
    success: true,
    source: "branch",
    base: null,
    head: null,
    truncated: false,
    altered: false,
    note: null,
  };
  await page.route(/\/diff/, (route) => {
    const isFurther = new URL(route.request().url()).searchParams.get("repository") === further.repo_url;
    const change = isFurther ? { files: [file], diff } : { files: [], diff: "" };
    return route.fulfill({ json: { ...answer, job_id: "x", diff_stat: { files: 0 }, ...change } });
  });
  await page.locator(listed).filter({ hasText: "00000000" }).getByRole("link", { name: /^!/ }).click();
  await page.getByRole("tab", { name: "Changes" }).click();
  await page.getByText("No change is shown here").waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.getByLabel("Repository").selectOption({ label: "acme/lib" });
  await page.locator(".line.added").getByText("new").waitFor();
  // What its time went into has the words of the shell.
  expect(await page.getByRole("list", { name: "Where the time went" }).innerText()).toMatch(/queue/);
  expect(faults).toEqual([]);
});

test("a failed job says why in the list; the form has all that a task may have, and faults stand at their fields", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs?status=failed");
  const failed = page.locator(listed).first();
  await failed.getByText("→ timeout").waitFor();
  await page.keyboard.press("n");
  const dialog = page.getByRole("dialog", { name: "New job" });
  await dialog.getByRole("button", { name: "Submit without a repository" }).waitFor();
  const fill = (label: string, text: string) => dialog.getByLabel(label).fill(text);
  await fill("What should be done", "Fix it");
  await dialog.getByRole("combobox", { name: "Repository" }).fill("acme/app");
  await dialog.getByText("Options of this job").click();
  await fill("Further repositories", "acme/lib\n\n  acme/docs ");
  await fill("Hosts it may reach", "registry.example.com");
  await fill("Commands that check", "npm test\nnpm run lint");
  await fill("Turns at most", "7");
  for (const label of ["Let me approve the plan", "Check out submodules"])
    await dialog.getByLabel(label).check();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  const bodies: unknown[] = [];
  const error = "allow_hosts: the profile code lets no task name hosts; options.checks.1: must not be empty";
  await page.route("**/jobs", (route) => {
    bodies.push(route.request().postDataJSON());
    return route.fulfill({ status: 400, json: { success: false, error, code: "invalid_request" } });
  });
  await dialog.getByRole("button", { name: "Submit", exact: true }).click();
  await dialog.getByText("must not be empty").waitFor();
  await dialog.getByText("lets no task name hosts").waitFor();
  expect(bodies).toEqual([
    {
      task: "Fix it",
      repo_url: "acme/app",
      allow_hosts: ["registry.example.com"],
      repositories: [{ repo_url: "acme/lib" }, { repo_url: "acme/docs" }],
      options: { max_turns: 7, checks: ["npm test", "npm run lint"], plan: true, submodules: true },
    },
  ]);
});

test("by keys alone a job is written and submitted, and is one job however often it is sent", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  await page.locator(listed).first().waitFor();
  await page.keyboard.press("n");
  await page.keyboard.type("jot this down");
  await page.getByRole("dialog", { name: "New job" }).waitFor();
  expect(await page.getByLabel("What should be done").inputValue()).toBe("jot this down");
  await page.getByLabel("What should be done").fill("");
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.keyboard.press("Control+Enter");
  const task = page.getByLabel("What should be done");
  await until(async () => (await task.getAttribute("aria-invalid")) === "true");
  await page.getByText("Write what the agent should do").waitFor();
  await page.keyboard.type("Write a poem about queues");
  await page.keyboard.press("Tab");
  await page.keyboard.type("not a repository");
  await page.keyboard.press("Control+Enter");
  const repository = page.getByRole("dialog").getByLabel("Repository");
  await page.getByText('The repository URL "not a repository" has white space').waitFor();
  expect(await repository.getAttribute("aria-invalid")).toBe("true");
  await repository.fill("");
  // The first answer is lost on its way: the page sends it again.
  let sent = 0;
  await page.route("**/jobs", async (route) => {
    sent += 1;
    if (sent > 1) return route.continue();
    await route.fetch();
    await route.abort();
  });
  // Files are dropped, pasted and chosen; one is taken away again.
  const bring = (event: string, data: string, name: string) =>
    page.evaluate(`{
      const ${data} = new DataTransfer();
      ${data}.items.add(new File(["some words"], "${name}"));
      const options = { ${data}, bubbles: true, cancelable: true };
      document.querySelector("dialog textarea").dispatchEvent(new ${event}, options));
    }`);
  const removal = (name: string) => page.getByRole("button", { name: `Remove ${name}` });
  await bring('DragEvent("drop"', "dataTransfer", "dropped.txt");
  await removal("dropped.txt").waitFor();
  await bring('ClipboardEvent("paste"', "clipboardData", "pasted.txt");
  await removal("pasted.txt").waitFor();
  await bring('ClipboardEvent("paste"', "clipboardData", "pasted.txt");
  await removal("pasted-2.txt").waitFor();
  const choose = page.getByLabel("Files", { exact: true });
  // By its path: its bytes need not get through the connection to the browser.
  const large = join(await temporaryDirectory(), "large");
  await writeFile(large, "");
  await truncate(large, 26 * 1024 * 1024);
  await choose.setInputFiles(large);
  await page.getByText("The files can have at most 25 MiB together").waitFor();
  expect(await page.getByRole("button", { name: "Submit" }).isDisabled()).toBe(true);
  await removal("large").click();
  await task.focus();
  await choose.setInputFiles({
    name: "lies.png",
    mimeType: "image/png",
    buffer: Buffer.from("no picture"),
  });
  await page.keyboard.press("Control+Enter");
  await page.getByText('"lies.png" is no image/png').waitFor();
  await removal("lies.png").click();
  sent = 0;
  await task.focus();
  await page.keyboard.press("Control+Enter");
  await page.waitForURL(/\/ui\/jobs\/[0-9a-f-]{36}$/);
  const { jobs } = await service.client.list_jobs({ q: "poem about queues" });
  expect(jobs.map(({ options }) => options.files)).toEqual([["dropped.txt", "pasted.txt", "pasted-2.txt"]]);
  expect(sent).toBe(2);
  expect(page.url()).toContain(jobs[0]?.id);
  expect(faults.filter((fault) => !fault.includes("ERR_FAILED"))).toEqual([]);
});

test("of seven tabs, one more than a browser has connections, the one in front sees what others submit and how it goes on; each other one does when it is in front", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs");
  const tabs = [page];
  while (tabs.length < 7) {
    if (tabs.length > 1) await show(tabs.at(-1), false);
    const tab = await page.context().newPage();
    await tab.goto(`${service.url}/ui/jobs`);
    await tab.locator(listed).first().waitFor();
    tabs.push(tab);
  }
  const { job } = await service.client.run_task({ task: 'Seen at once\nscenario: hang {"after": 1}' });
  const rowIn = (tab: Page) => tab.locator(listed).filter({ has: tab.locator(`a[href$="${job.id}"]`) });
  // Where several are in front, as in two windows, each does.
  await rowIn(page).getByText("running").waitFor();
  for (const tab of tabs.toReversed()) {
    await show(tab, true);
    await rowIn(tab).getByText("running").waitFor();
    if (tab !== page) await show(tab, false);
  }
  // Of a task of many lines the list has the first, and the rest where one points at it.
  const link = rowIn(page).getByRole("link");
  expect(await link.innerText()).toBe("Seen at once");
  expect(await link.getAttribute("title")).toBe(job.task);

  // Each tab with a running job has a connection of its own, but only while it is in front.
  for (const tab of tabs.slice(1)) {
    await show(tab, true);
    await rowIn(tab).getByRole("link").click();
    await tab.getByRole("tab", { name: "Conversation" }).waitFor();
    await tab.getByText("agent started").first().waitFor();
    await show(tab, false);
  }
  await service.client.cancel_job({ job_id: job.id });
  await rowIn(page).getByText("cancelled").waitFor();
  await page.reload();
  await rowIn(page).getByText("cancelled").waitFor();
});

test("a stream of changes that ends again and again is asked for ever less often, and the page says that it is behind", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs");
  await page.locator(listed).first().waitFor();
  const times: number[] = [];
  await page.route("**/jobs/changes", (route) => {
    times.push(performance.now());
    return route.fulfill({ contentType: "text/event-stream", body: "data: no JSON\n\n" });
  });
  await page.reload();
  const behind = page.getByRole("status").getByText("Changes do not come");
  await behind.waitFor();
  await until(() => times.length === 4);
  // 0.5 s, 1 s, 2 s: a busy machine only makes them longer.
  const pauses = times.slice(1).map((time, at) => time - (times[at] ?? 0));
  expect(pauses.map((pause, at) => pause > 490 * 2 ** at)).toEqual([true, true, true]);
  expect(await page.locator(listed).first().isVisible()).toBe(true);
  await page.unroute("**/jobs/changes");
  await behind.waitFor({ state: "detached" });
});

test("on a phone, in the dark, by touch, nothing is cut off, there is room for a finger, and the list is accessible", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs", {
    viewport: { width: 390, height: 780 },
    colorScheme: "dark",
    hasTouch: true,
  });
  await page.locator(listed).first().waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
  expect(await accessibilityFaults(page)).toEqual([]);
  const hidden = `(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector("nav"))`;
  expect(await page.evaluate(hidden)).toBe(0);
  const touched = page.locator("nav a, button, input, select, [role=row]").filter({ visible: true });
  const boxes = await Promise.all((await touched.all()).map((each) => each.boundingBox()));
  expect(Math.min(...boxes.map((box) => box?.height ?? 0))).toBeGreaterThanOrEqual(40);
  await page.getByRole("button", { name: "New job" }).tap();
  const close = page.getByRole("dialog").getByRole("button", { name: "Close" });
  expect(await close.innerText()).toBe("Close");
  await close.tap();
  await page.locator(listed).first().tap();
  await page.getByRole("tab", { name: "Conversation" }).waitFor();
});

test("without an agent the page of the chat says how to have one, and is not in the navigation", async () => {
  const { page } = await openPage(browser, service, "/ui/chat");
  await page.getByText("AGENT_MODE=true svc serve").waitFor();
  expect(await page.getByRole("link", { name: "Chat" }).count()).toBe(0);
});
