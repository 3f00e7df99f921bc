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

/** Rules that the colours decide, and rules that the width decides. */
const rulesOf = { colours: ["color-contrast"], width: ["target-size", "scrollable-region-focusable"] };

/**
 * What axe objects to, or cannot decide: rule and place. Below an open dialog nothing can be used or reached, and axe
 * would take it for what is behind the dialog's text: it is judged when the dialog is closed. What the dialog stands in is
 * behind all of it.
 */
export const accessibilityFaults = async (page: Page, only?: keyof typeof rulesOf): Promise<string[]> => {
  if (await page.evaluate<boolean>("window.axe === undefined")) await page.evaluate(axe.source);
  // Only the faults come over to here: all that axe has passed is much more.
  const faults = await page.evaluate<AxeResults["violations"]>(`(async () => {
    const belowDialog = new CSSStyleSheet();
    belowDialog.replaceSync(\`
      body:has(dialog:modal) :not(dialog, dialog *, :has(dialog)) { display: none }
      body :has(dialog:modal) { min-height: 100vh }\`);
    document.adoptedStyleSheets = [belowDialog];
    const { violations, incomplete } = await axe.run({
      preload: false,
      resultTypes: ["violations", "incomplete"],
      ${only === undefined ? "" : `runOnly: ${JSON.stringify(rulesOf[only])},`}
      rules: { "target-size": { enabled: true } },
      // A single letter is text too.
      checks: { "color-contrast": { options: { ignoreLength: true } } },
    });
    document.adoptedStyleSheets = [];
    return [...violations, ...incomplete];
  })()`);
  return faults.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any }) => `${id}: ${html} (${any.map(({ message }) => message).join(", ")})`),
  );
};

/**
 * The same with the page in the light, in the dark, and as narrow as a phone, and what is wider than the screen; then it
 * is as it was.
 */
export const accessibilityFaultsInAllViews = async (page: Page): Promise<string[]> => {
  const before = page.viewportSize() ?? { width: 1280, height: 800 };
  const faults: string[] = [];
  for (const [colorScheme, width, only] of [
    ["light", before.width, undefined],
    ["dark", before.width, "colours"],
    ["light", 390, "width"],
  ] as const) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ ...before, width });
    await page.evaluate("new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)))");
    const found = await accessibilityFaults(page, only);
    if (await page.evaluate<boolean>("document.documentElement.scrollWidth > innerWidth"))
      found.push("something is wider than the screen");
    for (const fault of found) faults.push(`${colorScheme}, ${width} px: ${fault}`);
  }
  await page.setViewportSize(before);
  return faults;
};
