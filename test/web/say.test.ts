import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { openPage, show } from "./open-page.ts";

/* The box under the conversation, in a real browser, with the real service and the stand-in of the agent. */

const [service, browser] = await Promise.all([startService(), openBrowser()]);
const ask = asks(service);

/** Slow steps: a row of the conversation stays in view until it is looked for. */
const slow = 'Mend it\nscenario: listen {"messages": 2, "every": 500}';

test("a word is said by keys alone, heard and shown; one that waits is taken back; after the end it continues the job", async () => {
  const job = await ask.submit({ task: slow });
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
    await text.fill(words);
    await text.press("Control+Enter");
    await page.getByText(`you said ${words}`).waitFor();
    await until(async () => (await text.inputValue()) === "", { what: "an empty field" });
  }
  await page.getByRole("status").getByText("succeeded").waitFor();
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

test("what is typed before the answer to the last word is here stays, and goes on its own", async () => {
  const job = await ask.submit({ task: slow });
  await ask.speaking(job.id);
  const { page } = await openPage(browser, service, `/ui/jobs/${job.id}`);
  const text = page.getByRole("textbox", { name: "What to say to the agent" });
  const say = page.getByRole("button", { name: "Say", exact: true });
  const answer = Promise.withResolvers<void>();
  await page.route("**/messages", async (route) => {
    const response = await route.fetch();
    await answer.promise;
    await route.fulfill({ response });
  });
  await text.fill("First");
  await text.press("Control+Enter");
  await page.getByText("you said First").waitFor();
  await text.fill("Second");
  answer.resolve();
  await until(() => say.isEnabled(), { what: "a button that sends again" });
  expect(await text.inputValue()).toBe("Second");
  await say.click();
  expect((await ask.ended(job.id)).output).toBe("Heard: First, Second");
});

test("a field that is empty takes the next word at once, however long the job is read", async () => {
  const job = await ask.submit({ task: 'Mend it\nscenario: listen {"messages": 2}' });
  await ask.speaking(job.id);
  const { page } = await openPage(browser, service, `/ui/jobs/${job.id}`);
  const text = page.getByRole("textbox", { name: "What to say to the agent" });
  await page.getByText("Bash make").last().waitFor();
  await page.route(
    (url) => url.pathname.endsWith(`/jobs/${job.id}`),
    () => undefined,
  );
  for (const words of ["First", "Second"]) {
    await text.fill(words);
    await text.press("Control+Enter");
    await until(async () => (await text.inputValue()) === "", { what: "an empty field" });
  }
  expect((await ask.ended(job.id)).output).toBe("Heard: First, Second");
});

test("after a fault the same words are said once, other words are said as well", async () => {
  const job = await ask.submit({ task: 'Mend it\nscenario: listen {"messages": 2}' });
  await ask.speaking(job.id);
  const { page } = await openPage(browser, service, `/ui/jobs/${job.id}`);
  const text = page.getByRole("textbox", { name: "What to say to the agent" });
  const say = page.getByRole("button", { name: "Say", exact: true });
  const alert = page.getByRole("region", { name: "Say something to the agent" }).getByRole("alert");
  // The service hears it, the page does not.
  await page.route("**/messages", async (route) => {
    await route.fetch();
    await route.abort();
  });
  await text.fill("First");
  for (let time = 0; time < 2; time += 1) {
    await say.click();
    await until(async () => (await say.isEnabled()) && (await alert.innerText()) !== "", { what: "a fault" });
  }
  await page.unroute("**/messages");
  await text.fill("Second");
  await say.click();
  expect((await ask.ended(job.id)).output).toBe("Heard: First, Second");
});

test("the page that follows a job shows its end, also when it hears first that the job has ended", async () => {
  const job = await ask.submit({ task: 'Mend it\nscenario: listen {"messages": 1}' });
  await ask.speaking(job.id);
  const { page } = await openPage(browser, service, `/ui/jobs/${job.id}`);
  await page.getByText("Bash make").last().waitFor();
  await show(page, false);
  // More than a screen has.
  for await (const { seq } of service.client.events(job.id)) if (seq > 150) break;
  await service.client.message_job({ job_id: job.id, text: "Enough" });
  await ask.ended(job.id);
  await show(page, true);
  await page.getByText("ended succeeded").waitFor();
  await page.getByRole("button", { name: "Jump to latest" }).waitFor({ state: "detached" });
});
