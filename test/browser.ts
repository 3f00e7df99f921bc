import axe, { type AxeResults } from "axe-core";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterFile } from "./cleanup.ts";
import { temporaryDirectory } from "./temporary.ts";

/** A real browser with a home of its own, which finds no host but this machine. Closed after the test file. */
export const openBrowser = async (): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: [
      "--disable-gpu",
      "--disable-quic",
      "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    ],
    env: { PATH: process.env["PATH"], HOME: await temporaryDirectory() },
  });
  afterFile(() => browser.close());
  return browser;
};

/** What axe objects to, or cannot decide: rule and place. */
export const accessibilityFaults = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe.source);
  const { violations, incomplete } = await page.evaluate<AxeResults>(
    `axe.run({ rules: { "target-size": { enabled: true } } })`,
  );
  return [...violations, ...incomplete].flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html} (${any.map(({ message }) => message).join(", ")})`),
  );
};
