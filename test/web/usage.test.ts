import { expect, test } from "vitest";
import { accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openPage } from "./open-page.ts";
import { storeRuns } from "./stored-runs.ts";

/* The page of usage and budgets, in a real browser, with the real service and the runs of two months. */

const home = await temporaryDirectory();
await storeRuns(home);
const env = { SERVICE_BUDGET_DAY_USD: "200", SERVICE_BUDGET_KEY_DAY_USD: "0.05" };
const [service, browser] = await Promise.all([startService({ home, env }), openBrowser()]);

test("the figures of a period are charts and a table, by what is chosen; a row narrows them; the address keeps it", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/usage?days=7");
  const total = async (days: number, profile = "") => {
    const since = new Date(Date.now() - (days - 1) * 86_400_000).toISOString().slice(0, 10);
    return (await service.client.get_usage({ since, profile })).total;
  };
  const figure = (name: string) => page.locator(".totals div", { hasText: name }).locator("dd");
  await figure("Cost")
    .getByText(`≈$${(await total(7)).cost_usd.toFixed(2)}`)
    .waitFor();
  await until(async () => (await page.locator(".chart").count()) === 4);
  const days = page.getByRole("table", { name: "Figures by day" });
  expect(await days.getByRole("row").count()).toBe(7);
  await page.getByRole("button", { name: "90 days" }).click();
  await figure("Cost")
    .getByText(`≈$${(await total(90)).cost_usd.toFixed(2)}`)
    .waitFor();
  await page.getByRole("button", { name: "as a table" }).click();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.getByRole("combobox", { name: "By" }).selectOption("repository");
  await page.getByRole("button", { name: "acme/billing" }).waitFor();
  await page.getByRole("combobox", { name: "By" }).selectOption("profile");
  await page.getByRole("button", { name: "review", exact: true }).click();
  await page.waitForURL(/days=90&by=profile&profile=review$/);
  const narrowed = figure("Cost").getByText(`≈$${(await total(90, "review")).cost_usd.toFixed(2)}`);
  await narrowed.waitFor();
  await page.reload();
  await narrowed.waitFor();
  await page.getByRole("button", { name: "profile: review" }).click();
  await figure("Runs")
    .getByText(String((await total(90)).runs))
    .waitFor();
  expect(faults).toEqual([]);
});

test("a period by its days stands in the address; an end before the start becomes the start; one that is none is said", async () => {
  const { page } = await openPage(browser, service, "/ui/usage");
  const since = new Date(Date.now() - 20 * 86_400_000).toISOString().slice(0, 10);
  await page.getByLabel("to", { exact: true }).fill(since);
  await page.waitForURL(`**/ui/usage?since=*&until=${since}`);
  await page.getByLabel("From", { exact: true }).fill("2099-01-01");
  await page.waitForURL(`**/ui/usage?since=${since}&until=2099-01-01`);
  await page.goto(`${service.url}/ui/usage?since=never`);
  await page.getByRole("alert").getByText("must be a date").waitFor();
});

test("budgets show what is left of today, and one that is spent says when it lifts", async () => {
  const { page } = await openPage(browser, service, "/ui/usage");
  const { budgets } = await service.client.get_usage({});
  const left = 200 - (budgets[0]?.spent_usd ?? 0);
  await page
    .getByRole("row")
    .filter({ hasText: `$${left.toFixed(2)} left of $200.00` })
    .waitFor();
  await page.getByRole("row").filter({ hasText: "Your API key" }).getByText("lifts at midnight").waitFor();
});
