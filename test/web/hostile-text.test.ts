import type { Browser, Page } from "playwright-core";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { openPage } from "./open-page.ts";
import { scriptTasks } from "./script-time.ts";

/* Text that takes long to read as markdown, in a real browser: the page answers all the same. */

const [service, browser] = await Promise.all([startService({ env: { AGENT_MODE: "true" } }), openBrowser()]);
const ask = asks(service);

/** Of 51 KB the library that reads markdown makes a task of 6 s on a quiet machine. */
const hostile = ">>\n\\ \n".repeat(7300);
const scenario = (steps: object[]): string =>
  `scenario: chat ${JSON.stringify({ steps, deltaLength: 500, deltaMs: 20 })}`;

/** The longest task of the page's scripts, ms of processor time. */
const longestTask = async (browser: Browser, page: Page, act: () => Promise<void>): Promise<number> =>
  (await scriptTasks(browser, page, act))[0] ?? 0;

test("51 KB that are slow to read hold neither the conversation nor the output of a job up", async () => {
  const piece = { text: `x\n\n${hostile.slice(0, 8000)}` };
  const steps = [piece, { thinking: "." }, piece, { thinking: "." }, { text: hostile }];
  const job = await ask.ended((await ask.submit({ task: scenario(steps) })).id);
  const { page } = await openPage(browser, service, "/ui/jobs/none");
  for (const pane of ["conversation", "output"]) {
    const longest = await longestTask(browser, page, async () => {
      await page.goto(`${service.url}/ui/jobs/${job.id}?pane=${pane}`);
      await page.locator(".markdown blockquote").first().waitFor({ state: "attached" });
      await page.keyboard.press("G");
      await page
        .getByRole("button", { name: /more characters$/ })
        .last()
        .waitFor();
    });
    expect(longest).toBeLessThan(1500);
  }
});

test("51 KB that are slow to read hold a chat up neither as they come nor when it is opened again", async () => {
  const { page } = await openPage(browser, service, "/ui/chat");
  const came = await longestTask(browser, page, async () => {
    await page.getByLabel("Message", { exact: true }).fill(scenario([{ text: hostile }]));
    await page.keyboard.press("Enter");
    await page.getByText(/tokens read/).waitFor();
  });
  const opened = await longestTask(browser, page, async () => {
    await page.reload();
    await page.locator(".markdown blockquote").first().waitFor({ state: "attached" });
  });
  expect(Math.max(came, opened)).toBeLessThan(1500);
});
