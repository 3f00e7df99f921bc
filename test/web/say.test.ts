import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { openPage } from "./open-page.ts";

/* The box under the conversation, in a real browser, with the real service and the stand-in of the agent. */

const [service, browser] = await Promise.all([startService(), openBrowser()]);
const ask = asks(service);

test("a word is said by keys alone, heard and shown; one that waits is taken back; after the end it continues the job", async () => {
  const job = await ask.submit({ task: 'Mend it\nscenario: listen {"messages": 2}' });
  await ask.speaking(job.id);
  const { page, faults } = await openPage(browser, service, `/ui/jobs/${job.id}`);
  const box = page.getByRole("region", { name: "Say something to the agent" });
  const text = box.getByRole("textbox", { name: "What to say to the agent" });
  const say = box.getByRole("button", { name: "Say", exact: true });
  expect(await say.isDisabled()).toBe(true);
  await text.fill("Never mind <b>\u001b[2J");
  await box.getByRole("combobox").selectOption("later");
  await page.keyboard.press("Tab");
  await text.press("Control+Enter");
  await box.getByText("Never mind <b> when it is done").waitFor();
  expect(await text.inputValue()).toBe("");
  await box.getByRole("button", { name: "Take back" }).click();
  await box.getByRole("button", { name: "Take back" }).waitFor({ state: "detached" });
  await box.getByRole("combobox").selectOption("next");
  for (const words of ["Keep the old endpoint", "And test it"]) {
    if (words !== "Keep the old endpoint") await page.getByText("you said Keep the old endpoint").waitFor();
    await text.fill(words);
    await text.press("Control+Enter");
  }
  await page.getByRole("status").getByText("succeeded").waitFor();
  await page.getByText("you said And test it").waitFor();
  const { messages, output } = await ask.get(job.id);
  expect(messages.map(({ status }) => status)).toEqual(["withdrawn", "taken", "taken"]);
  expect(output).toBe("Heard: Keep the old endpoint, And test it");

  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await text.fill("Now the docs\nscenario: noop");
  await box.getByRole("button", { name: "Continue" }).click();
  await page.waitForURL((url) => url.pathname.startsWith("/ui/jobs/") && !url.pathname.endsWith(job.id));
  const next = await ask.ended(new URL(page.url()).pathname.slice("/ui/jobs/".length));
  expect(next).toMatchObject({
    task: "Now the docs\nscenario: noop",
    session_id: (await ask.get(job.id)).session_id,
  });
  expect(faults).toEqual([]);
});
