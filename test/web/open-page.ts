import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { onTestFinished } from "vitest";
import type { Service } from "../service-process.ts";

/** A tab of a user who has come for the first time, and what went wrong in it. */
export const openPage = async (
  browser: Browser,
  { url }: Pick<Service, "url">,
  path = "/",
  options: BrowserContextOptions = {},
): Promise<{ page: Page; faults: string[] }> => {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    // What turns as long as a job runs would be painted sixty times a second.
    reducedMotion: "reduce",
    ...options,
  });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(100_000);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    // A status that the page handles is listed by the browser all the same.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      faults.push(message.text());
  });
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== url && !request.url().startsWith("data:"))
      faults.push(request.url());
  });
  await page.goto(url + path);
  return { page, faults };
};

/** As a hand on the wheel does. */
export const scrollByWheel = async (page: Page, direction: 1 | -1): Promise<void> => {
  await page.mouse.move(800, 500);
  for (let turn = 0; turn < 15; turn += 1) {
    await page.mouse.wheel(0, direction * 2000);
    await page.evaluate("new Promise(requestAnimationFrame)");
  }
};

/** Puts a tab in front, or behind: a browser without a screen has all in front. */
export const show = async (tab: Page | undefined, seen: boolean): Promise<void> => {
  await tab?.evaluate(`{
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${seen ? "visible" : "hidden"}" });
    document.dispatchEvent(new Event("visibilitychange"));
  }`);
};
