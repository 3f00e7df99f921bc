import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { openPage } from "./open-page.ts";
import { scriptTasks } from "./script-time.ts";

/* Chat in a real browser, with the real service and the scripted agent. */

const [service, browser] = await Promise.all([
  // With this policy nothing but an explicit cancel stops an answer.
  startService({ env: { AGENT_MODE: "true", AGENT_MODE_ON_DISCONNECT: "detach" } }),
  openBrowser(),
]);
const ask = asks(service);

const steps = (...all: object[]): string => `scenario: chat ${JSON.stringify({ steps: all })}`;

const say = async (page: Page, text: string): Promise<void> => {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
};

/** An Enter that an input method sends: while it composes, and after it, as Safari does. */
const composed = [{ isComposing: true, keyCode: 13 }, { keyCode: 229 }];

test("Enter of an input method sends no message, leaves no field and sends no form", async () => {
  const { page } = await openPage(browser, service, "/ui/chat");
  const sent: string[] = [];
  page.on("request", (request) => {
    if (request.method() === "POST") sent.push(new URL(request.url()).pathname);
  });
  const press = async (init: object): Promise<void> => {
    const event = JSON.stringify({ key: "Enter", bubbles: true, cancelable: true, ...init });
    await page.evaluate(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", ${event}))`);
  };
  const focused = () => page.evaluate<string>("document.activeElement.value");
  await page.getByLabel("Message", { exact: true }).fill(steps({ text: "Here" }));
  for (const init of composed) await press(init);
  await page.goto(`${service.url}/ui/jobs`);
  await page.getByLabel("Search tasks").fill("にほん");
  for (const init of composed) await press(init);
  expect(await focused()).toBe("にほん");
  await press({});
  expect(await focused()).not.toBe("にほん");
  await page.keyboard.press("n");
  await page.getByLabel("What should be done").fill("scenario: text");
  for (const init of composed) await press({ ...init, ctrlKey: true });
  await page.getByLabel("Base branch").focus();
  for (const init of composed) await press(init);
  expect(sent).toEqual([]);
  await page.keyboard.press("Control+Enter");
  await page.getByRole("tab", { name: "Conversation" }).waitFor();
  expect(sent).toEqual(["/jobs"]);
});

const tool = { tool: { name: "Bash", input: { command: "ls -l src" }, result: "one.ts\ntwo.ts" } };

test("an answer streams with thinking, narration, a tool call and markdown, stays after a reload, and goes on", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/chat");
  await page.getByRole("link", { name: "Chat" }).waitFor();
  await page.getByLabel("Message", { exact: true }).fill("Look around.");
  await page.keyboard.press("Shift+Enter");
  const final = "There are **two** files. <img src=x onerror=alert(1)><b>bold</b>";
  await page.keyboard.insertText(
    steps({ thinking: "Hm, files." }, { text: "I look." }, tool, { text: final }),
  );
  const button = `getComputedStyle(document.querySelector(".composer .primary")).backgroundColor`;
  const ready = await page.evaluate(button);
  await page.keyboard.press("Enter");
  const turn = page.locator(".turn");
  await turn.getByText(/tokens read/).waitFor();
  await turn.locator(".final strong").getByText("two").waitFor();
  expect(await turn.locator(".final").textContent()).toContain("<img src=x onerror=alert(1)><b>bold</b>");
  expect(await turn.locator("img, b").count()).toBe(0);
  expect(await turn.locator(".narration").textContent()).toBe("I look.");
  const thought = turn.locator("details").filter({ hasText: "Thought" });
  expect(await thought.getAttribute("open")).toBe(null);
  expect(await page.getByRole("status").filter({ hasText: "The agent says: There are" }).count()).toBe(1);
  await turn.locator("summary").getByText("ls -l src").click();
  await turn.locator(".output").getByText("two.ts").waitFor();
  await thought.locator("summary").click();
  await thought.locator("p").getByText("Hm, files.").waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  // There is nothing to send now, and the button looks like it.
  expect(await page.evaluate(button)).not.toBe(ready);

  await page.reload();
  await turn.locator(".final strong").waitFor();
  await say(page, "scenario: echo");
  await turn.nth(1).getByText('"turn":2').waitFor();
  await page.getByRole("button", { name: "New conversation" }).click();
  await page.getByRole("heading", { name: "Ask the agent" }).waitFor();
  await page.getByRole("link", { name: /^Look around\./ }).click();
  await turn.nth(1).getByText('"turn":2').waitFor();
  page.once("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Remove conversation" }).click();
  await page.getByRole("heading", { name: "Ask the agent" }).waitFor();
  expect(await page.getByRole("link", { name: /^Look around\./ }).count()).toBe(0);
  expect(faults).toEqual([]);
});

test("Escape stops the answer at the service; what came of it stays", async () => {
  const { page } = await openPage(browser, service, "/ui/chat");
  await say(page, steps({ text: "Here I begin." }, { ms: 60_000 }, { text: "Never." }));
  await page.locator(".final").getByText("Here I begin.").waitFor();
  const cancelled = page.waitForResponse(/\/cancel$/);
  await page.keyboard.press("Escape");
  expect((await cancelled).status()).toBe(200);
  await page.locator(".ending").getByText("Stopped").waitFor();
  await page.locator(".final").getByText("Here I begin.").waitFor();
  await say(page, "scenario: echo");
  await page.locator(".turn").nth(1).locator(".final").waitFor();
});

test("a failure says why and is tried again; an answer whose connection broke is joined; on a phone, in the dark", async () => {
  const { page } = await openPage(browser, service, "/ui/chat", {
    viewport: { width: 390, height: 780 },
    colorScheme: "dark",
  });
  await say(page, "scenario: auth-error");
  await page.getByRole("alert").getByText("credentials").waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  const again = page.waitForRequest("**/v1/chat/completions");
  await page.getByRole("button", { name: "Try again" }).click();
  await again;
  await page.getByRole("alert").waitFor();
  const ids: string[] = [];
  await page.route("**/v1/chat/completions", async (route) => {
    const id = route.request().headers()["x-request-id"];
    if (id === undefined || ids.push(id) > 1) return route.continue();
    await route.fetch();
    await route.abort();
  });
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, "scenario: echo");
  await page.getByRole("button", { name: "Get the answer" }).click();
  // A second run would be the second turn of its session.
  await page.locator(".final").getByText('"turn":1').waitFor();
  expect(ids).toEqual([ids[0], ids[0]]);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
});

test("a long conversation shows its latest messages, few of which are made; others are found in it", async () => {
  const { page } = await openPage(browser, service, "/ui/chat?c=long");
  await page.getByRole("heading", { name: "Ask the agent" }).waitFor();
  await page.evaluate(`new Promise((resolve, reject) => {
    const opened = indexedDB.open("svc.chat", 1);
    opened.onsuccess = () => {
      const all = opened.result.transaction(["conversations", "turns"], "readwrite");
      all.objectStore("conversations").put({ id: "long", title: "Long", model: "default", at: 1 });
      for (let at = 1; at <= 120; at += 1)
        all.objectStore("turns").put({
          conversation: "long", at, id: "r" + at, question: "Question " + at, model: "default", isLive: true,
          blocks: [{ type: "text", text: "Answer " + at + "\\n\\nin two paragraphs" }],
          state: "done", error: null, tokens: null, began: at, ms: 1,
        });
      all.oncomplete = resolve;
      all.onerror = reject;
    };
  })`);
  await page.reload();
  await page.getByText("Question 120", { exact: true }).waitFor();
  expect(await page.locator(".turn").count()).toBeLessThan(40);
  await page.getByLabel("Find in the conversation").fill("question 7");
  await page.keyboard.press("Enter");
  await page.locator("[aria-current]").getByText("Question 7", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Jump to latest" }).click();
  await page.getByText("Question 120", { exact: true }).waitFor();
});

test("what the agent shows is switched for everyone, and holds for the next answer", async () => {
  const { page } = await openPage(browser, service, "/ui/chat");
  await page.getByLabel("Tools").uncheck();
  const { page: other } = await openPage(browser, service, "/ui/chat");
  await until(async () => !(await other.getByLabel("Tools").isChecked()));
  await say(other, steps({ text: "I look." }, tool, { text: "Done." }));
  await other.locator(".ending").getByText("tokens").waitFor();
  expect(await other.locator(".turn details").count()).toBe(0);
  await say(other, "/show-tools");
  await other.getByText("The agent shows: thinking, tools, narration, final.").first().waitFor();
  await until(() => other.getByLabel("Tools").isChecked());
});

/* Text that takes long to read as markdown: the page answers all the same. */

/** Of 51 KB the library that reads markdown makes a task of 6 s on a quiet machine. */
const hostile = ">>\n\\ \n".repeat(7300);
const inPieces = (steps: object[]): string =>
  `scenario: chat ${JSON.stringify({ steps, deltaLength: 2000, deltaMs: 20 })}`;

/** The longest task of the page's scripts, ms of processor time. */
const longestTask = async (page: Page, act: () => Promise<void>): Promise<number> =>
  (await scriptTasks(browser, page, act))[0] ?? 0;

test("51 KB that are slow to read hold neither the conversation nor the output of a job up", async () => {
  const piece = { text: `x\n\n${hostile.slice(0, 8000)}` };
  const steps = [piece, { thinking: "." }, { text: hostile }];
  const job = await ask.ended((await ask.submit({ task: inPieces(steps) })).id);
  const { page } = await openPage(browser, service, "/ui/jobs/none");
  for (const pane of ["conversation", "output"]) {
    const longest = await longestTask(page, async () => {
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
  const came = await longestTask(page, async () => {
    await page.getByLabel("Message", { exact: true }).fill(inPieces([{ text: hostile }]));
    await page.keyboard.press("Enter");
    await page.getByText(/tokens read/).waitFor();
  });
  const opened = await longestTask(page, async () => {
    await page.reload();
    await page.locator(".markdown blockquote").first().waitFor({ state: "attached" });
  });
  expect(Math.max(came, opened)).toBeLessThan(1500);
});
