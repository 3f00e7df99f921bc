import { expect, test } from "vitest";
import { accessibilityFaults, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openPage } from "./open-page.ts";
import { storeJobs } from "./stored-jobs.ts";

/* The list of jobs and the form for a new one, in a real browser, with the real service. */

const home = await temporaryDirectory();
await storeJobs(home, 450);
const [service, browser] = await Promise.all([startService({ home }), openBrowser()]);
const listed = '[role="row"]:not(.heads)';

test("the list scrolls to its last job page by page, and few rows are made", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  const rows = page.locator(listed);
  await rows.first().waitFor();
  expect(await rows.count()).toBeLessThan(60);
  await page.getByText("100+ jobs").waitFor();
  await until(async () => {
    await page.evaluate("document.querySelector('.job-table').scrollTo(0, 1e9)");
    return (await page.locator('a[href^="/ui/jobs/000001c1-"]').count()) > 0;
  });
  await page.getByText("450 jobs").waitFor();
  expect(await rows.count()).toBeLessThan(60);
  expect(faults).toEqual([]);
});

test("filters and search narrow the list, stand in the address, and come back with it", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs");
  await page.getByLabel("Status").selectOption("failed");
  await page.waitForURL("**/ui/jobs?status=failed");
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

test("by keys alone a job is written and submitted, and is one job however often it is sent", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  await page.locator(listed).first().waitFor();
  await page.keyboard.press("n");
  await page.getByRole("dialog", { name: "New job" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press("Control+Enter");
  const task = page.getByLabel("What should be done");
  await until(async () => (await task.getAttribute("aria-invalid")) === "true");
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
  await page.keyboard.press("Control+Enter");
  await page.waitForURL(/\/ui\/jobs\/[0-9a-f-]{36}$/);
  const { jobs } = await service.client.list_jobs({ q: "poem about queues" });
  expect(jobs).toHaveLength(1);
  expect(sent).toBe(2);
  expect(page.url()).toContain(jobs[0]?.id);
  expect(faults.filter((fault) => !fault.includes("ERR_FAILED"))).toEqual([]);
});

test("with j, k and Enter a user goes through the list", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs?status=failed");
  await page.locator(listed).first().waitFor();
  for (const pressed of ["j", "j", "k"]) await page.keyboard.press(pressed);
  const [first] = (await service.client.list_jobs({ status: "failed", limit: 1 })).jobs;
  await page.locator(`${listed}[data-selected="true"] a[href$="${first?.id}"]`).waitFor();
  expect(await page.evaluate<string>("document.activeElement.href")).toContain(first?.id);
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/ui/jobs/${first?.id}`);
});

test("two tabs see what others submit and how it goes on, over one connection; the second goes on without the first", async () => {
  const { page } = await openPage(browser, service, "/ui/jobs");
  const asked: string[] = [];
  page.context().on("request", (request) => asked.push(new URL(request.url()).pathname));
  const second = await page.context().newPage();
  await second.goto(`${service.url}/ui/jobs`);
  await Promise.all([page, second].map((tab) => tab.locator(listed).first().waitFor()));
  const { job } = await service.client.run_task({ task: 'Seen at once\nscenario: hang {"after": 1}' });
  const rowIn = (tab: typeof page) =>
    tab.locator(listed).filter({ has: tab.locator(`a[href$="${job.id}"]`) });
  await Promise.all([page, second].map((tab) => rowIn(tab).getByText("running").waitFor()));
  await page.close();
  // The lock goes to the second tab: it has read the list again once it follows.
  await until(() => asked.filter((path) => path === "/jobs/changes").length === 1);
  await service.client.cancel_job({ job_id: job.id });
  await rowIn(second).getByText("cancelled").waitFor();
});

test("on a phone, in the dark, nothing is cut off and the list is accessible", async () => {
  // axe cannot judge rows that are scrolled out of view.
  const { page } = await openPage(browser, service, "/ui/jobs?status=cancelled&profile=review&q=upload", {
    viewport: { width: 390, height: 780 },
    colorScheme: "dark",
  });
  await page.locator(listed).first().waitFor();
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
  expect(await accessibilityFaults(page)).toEqual([]);
});
