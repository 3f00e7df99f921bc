import axe, { type AxeResults } from "axe-core";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterFile } from "./cleanup.ts";
import { temporaryDirectory } from "./temporary.ts";

/** A real browser with a home of its own, which finds no host but this machine. Closed after the test file. */
export const openBrowser = async (): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium-headless-shell",
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

/**
 * What axe objects to, or cannot decide: rule and place. Below an open dialog nothing can be used or reached, and axe
 * would take it for what is behind the dialog's text: it is judged when the dialog is closed.
 */
export const accessibilityFaults = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe.source);
  await page.evaluate(`{
    const belowDialog = new CSSStyleSheet();
    belowDialog.replaceSync("body:has(dialog:modal) :not(dialog, dialog *, :has(dialog)) { visibility: hidden }");
    document.adoptedStyleSheets = [belowDialog];
  }`);
  const { violations, incomplete } = await page.evaluate<AxeResults>(
    // A single letter is text too.
    `axe.run({
      rules: { "target-size": { enabled: true } },
      checks: { "color-contrast": { options: { ignoreLength: true } } },
    })`,
  );
  await page.evaluate("document.adoptedStyleSheets = []");
  return [...violations, ...incomplete].flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html} (${any.map(({ message }) => message).join(", ")})`),
  );
};

/** The same with the page in the light, in the dark, and as narrow as a phone; then it is as it was. */
export const accessibilityFaultsInAllViews = async (page: Page): Promise<string[]> => {
  const before = page.viewportSize() ?? { width: 1280, height: 800 };
  const faults: string[] = [];
  for (const [colorScheme, width] of [
    ["light", before.width],
    ["dark", before.width],
    ["light", 390],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ ...before, width });
    await page.evaluate("new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)))");
    for (const fault of await accessibilityFaults(page)) faults.push(`${colorScheme}, ${width} px: ${fault}`);
  }
  await page.setViewportSize(before);
  return faults;
};
