import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { recordedHome, serveBridge } from "../bridge/run-bridge.ts";
import { lastingPort } from "../lasting-port.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { openPage } from "./open-page.ts";
import { storeJobs } from "./stored-jobs.ts";

/* Transcripts in a real browser, with the real service and a real transcript service beside it. */

const key = "key-of-the-bridge";
const project = "/home/ana/zoo";
const long = "22222222-2222-4222-8222-222222222222";
const jobId = "00000000-0000-4000-8000-000000000000";

const corpus = await recordedHome();
const projects = join(corpus, ".claude", "projects", "-home-ana-zoo");
await mkdir(projects, { recursive: true });

const write = async (id: string, messages: { role: "user" | "assistant"; content: unknown }[]) => {
  const lines = messages.map((message, at) => ({
    type: message.role,
    uuid: `${id}-${at}`,
    sessionId: id,
    cwd: project,
    gitBranch: "main",
    timestamp: new Date(Date.parse("2026-03-02T09:00:00Z") + at * 1000).toISOString(),
    message,
  }));
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  await writeFile(join(projects, `${id}.jsonl`), text);
};

/** Six lines, of which four are entries. */
const turn = (at: number) => [
  { role: "user" as const, content: `Prompt ${at}: feed the animals` },
  { role: "assistant" as const, content: [{ type: "thinking", thinking: `Thought ${at}: which ones?` }] },
  {
    role: "assistant" as const,
    content: [{ type: "text", text: `Answer ${at}:\n\n${"- more\n".repeat(at % 7)}` }],
  },
  {
    role: "assistant" as const,
    content: [{ type: "tool_use", id: `call-${at}`, name: "Bash", input: { command: `feed ${at}` } }],
  },
  {
    role: "user" as const,
    content: [{ type: "tool_result", tool_use_id: `call-${at}`, content: at === 40 ? "an ocelot" : "fed" }],
  },
  { role: "assistant" as const, content: [{ type: "text", text: `End of turn ${at}` }] },
];
await write(long, Array.from({ length: 60 }, (_, at) => turn(at)).flat());
for (let n = 0; n < 60; n += 1)
  await write(`33333333-3333-4333-8333-0000000000${String(n).padStart(2, "0")}`, [
    { role: "user", content: `Count the herons, day ${n}` },
  ]);

const home = await temporaryDirectory();
await storeJobs(home, 1);
const record = join(home, ".service", "jobs", `${jobId}.json`);
await writeFile(record, JSON.stringify({ ...JSON.parse(await readFile(record, "utf8")), session_id: long }));

const port = String(await lastingPort());
const startBridge = (...keys: string[]) =>
  serveBridge(corpus, { BRIDGE_API_KEYS: keys.join(), BRIDGE_PORT: port });
let bridge = await startBridge(key, "key-to-withdraw");
const [service, browser] = await Promise.all([
  startService({ home, env: { SERVICE_BRIDGE_URL: bridge.url } }),
  openBrowser(),
]);

const enterKey = async (page: Page, entered = key) => {
  await page.getByLabel("One of its keys").fill(entered);
  await page.getByRole("button", { name: "Use this key" }).click();
};

/** A tab that has the key. */
const openKeyed = async (path: string, options = {}, entered = key) => {
  const opened = await openPage(browser, service, path, options);
  await enterKey(opened.page, entered);
  await opened.page.getByLabel("One of its keys").waitFor({ state: "detached" });
  return opened;
};

const list = (page: Page) => page.getByRole("list", { name: /sessions/i });

test("the transcript service's key is asked for, tried, and kept in this tab only", async () => {
  const { page, faults } = await openPage(browser, service, "/ui/jobs");
  await page.getByRole("link", { name: "Transcripts" }).click();
  await page.getByRole("heading", { name: "The transcript service asks for a key" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await enterKey(page, "wrong");
  await page.getByText("That key is not one of the transcript service's").waitFor();
  await enterKey(page);
  await list(page).getByRole("link", { name: "Prompt 0: feed the animals" }).waitFor();
  await page.reload();
  await list(page).waitFor();
  expect(page.url()).not.toContain(key);
  page.once("dialog", (dialog) => void dialog.accept());
  await page.getByRole("button", { name: "Forget key" }).click();
  await page.getByRole("heading", { name: "The transcript service asks for a key" }).waitFor();
  expect(faults).toEqual([]);
});

test("a list that is not whole says how much is read so far, until all is", async () => {
  const { page, faults } = await openKeyed("/ui/transcripts");
  await list(page).waitFor();
  let isReading = true;
  await page.route("**/transcripts/mcp", async (route) => {
    const response = await route.fetch();
    const answer = (await response.json()) as { result: { structuredContent: object } };
    const read = { collecting: true, collected_bytes: 3 * 1024 ** 2, total_bytes: 9 * 1024 ** 2 };
    if (isReading) Object.assign(answer.result.structuredContent, read);
    await route.fulfill({ response, json: answer });
  });
  const told = page.getByRole("status").getByText("3.0 MiB of 9.0 MiB read so far");
  for (const path of ["/ui/transcripts", "/ui/transcripts?q=ocelot"]) {
    isReading = true;
    await page.goto(`${service.url}${path}`);
    await told.waitFor();
    isReading = false;
    await told.waitFor({ state: "detached" });
  }
  expect(faults).toEqual([]);
});

test("a search marks its hits, and one opens the session at its entry, with thinking, call and result", async () => {
  const { page, faults } = await openKeyed("/ui/transcripts");
  await page.keyboard.press("/");
  await page.keyboard.type("ocelot");
  const hit = list(page).getByRole("link", { name: "an ocelot" });
  await hit.waitFor();
  expect(await hit.locator("mark").textContent()).toBe("ocelot");
  expect(new URL(page.url()).search).toBe("?q=ocelot");
  await page.keyboard.press("Escape");
  for (const key of ["j", "Enter"]) await page.keyboard.press(key);
  const entry = page.locator("article[aria-current]");
  await entry.getByText("an ocelot").waitFor();
  await entry.getByText("Bash feed 40").waitFor();
  expect(new URL(page.url()).pathname + new URL(page.url()).search).toBe(`/ui/transcripts/${long}?at=162`);
  await page.getByText("Thought 40: which ones?").click();
  await page.keyboard.press("k");
  await page.locator("article[aria-current]", { hasText: "Answer 40" }).waitFor();
  await page.getByRole("link", { name: "The job" }).click();
  await page.waitForURL(`${service.url}/ui/jobs/${jobId}`);
  expect(faults).toEqual([]);
});

test("an entry that is chosen at the moment when earlier ones come stays in view", async () => {
  const { page } = await openKeyed(`/ui/transcripts/${long}?at=162`);
  const chosen = page.locator("article[aria-current]");
  const region = page.getByRole("region", { name: "Conversation" });
  const isInView = async (): Promise<boolean> => {
    if ((await chosen.count()) === 0) return false;
    const [entry, around] = await Promise.all([chosen.boundingBox(), region.boundingBox()]);
    if (entry === null || around === null) return false;
    return entry.y >= around.y && entry.y < around.y + around.height;
  };
  let come = Promise.withResolvers<void>();
  let isAsked = false;
  await page.route("**/transcripts/mcp", async (route) => {
    const { params } = route.request().postDataJSON() as { params: { arguments?: { offset?: number } } };
    const response = await route.fetch();
    if ((params.arguments?.offset ?? Infinity) < 154) {
      isAsked = true;
      await come.promise;
    }
    await route.fulfill({ response });
  });
  // They come within the few frames in which the list still scrolls to the entry.
  for (const ms of [14, 16, 20, 22, 14, 16, 20, 22]) {
    come = Promise.withResolvers<void>();
    isAsked = false;
    await page.goto(`${service.url}/ui/transcripts/${long}?at=162`);
    await chosen.getByText("Bash feed 40").waitFor();
    // Scrolled back to the first of them, the page asks for what is above.
    let offset = 68;
    await until(async () => {
      await region.evaluate((element, scrollTop) => void Object.assign(element, { scrollTop }), offset);
      offset = 368 - offset;
      return isAsked;
    });
    await Promise.all([page.keyboard.press("k"), setTimeout(ms).then(() => come.resolve())]);
    await page.getByText("Show earlier (154)").waitFor({ state: "detached" });
    for (let frame = 0; frame < 10; frame += 1)
      await page.evaluate("new Promise((resolve) => requestAnimationFrame(resolve))");
    expect(await isInView()).toBe(true);
  }
});

test("a session is read both ways as it is scrolled, and what is read before keeps the reader's place", async () => {
  const { page } = await openKeyed(`/ui/transcripts/${long}?at=120`);
  const conversation = page.getByRole("region", { name: "Conversation" });
  const isAtTop = async (text: string): Promise<boolean> => {
    const [entry, region] = await Promise.all(
      [page.getByText(text), conversation].map((part) => part.boundingBox()),
    );
    return Math.abs((entry?.y ?? Infinity) - (region?.y ?? 0)) < 12;
  };
  await until(() => isAtTop("Prompt 30:"));
  await page.getByRole("button", { name: "Show earlier (112)" }).click();
  await page.getByRole("button", { name: "Show earlier (87)" }).waitFor();
  await until(() => isAtTop("Prompt 30:"));
  await conversation.hover();
  const scrolledTo = async (text: string, by: number) => {
    await until(async () => {
      await page.mouse.wheel(0, by);
      return await page.getByText(text, { exact: true }).isVisible();
    });
  };
  await scrolledTo("Prompt 0: feed the animals", -900);
  await scrolledTo("End of turn 59", 900);
  await page.getByRole("button", { name: "Look for new entries" }).waitFor();
});

test("with the transcript service away, what is shown stays; when it is back and knows the key no more, it asks", async () => {
  const { page } = await openKeyed("/ui/transcripts?q=herons", {}, "key-to-withdraw");
  await page.getByText("60 sessions").waitFor();
  const { page: reader } = await openKeyed(`/ui/transcripts/${long}?at=120`);
  await reader.getByText("Prompt 30:").waitFor();
  await bridge.stop();
  await reader.getByRole("button", { name: "Show earlier (112)" }).click();
  await reader.getByRole("alert").getByText("does not answer").waitFor();
  await reader.getByText("Prompt 30:").waitFor();
  await list(page).hover();
  await page.mouse.wheel(0, 20_000);
  await page.getByRole("alert").getByText("does not answer; start it with `bridge serve`").waitFor();
  await list(page).getByText("herons").first().waitFor();
  const other = await openPage(browser, service, "/ui/transcripts");
  await other.page.getByRole("alert").getByText("does not answer").waitFor();
  bridge = await startBridge(key);
  await page.getByRole("button", { name: "Try again" }).click();
  await enterKey(page);
  await list(page).getByText("herons").first().waitFor();
  await page.mouse.wheel(0, 20_000);
  await list(page).getByText("day 52").waitFor();
  await reader.getByRole("button", { name: "Try again" }).click();
  await reader.getByRole("button", { name: "Show earlier (87)" }).waitFor();
  await other.page.getByRole("button", { name: "Try again" }).click();
  await other.page.getByRole("heading", { name: "asks for a key" }).waitFor();
});

test("what is not there is said: no hits, a query without words, no such session", async () => {
  const { page } = await openKeyed("/ui/transcripts?q=unicorn&role=user");
  await page.getByRole("heading", { name: "No session has this" }).waitFor();
  await page.getByRole("searchbox").fill("-heron");
  await page.getByText("The query has no word to look for").waitFor();
  await page.goto(`${service.url}/ui/transcripts/unknown`);
  await page.getByRole("heading", { name: "This was not found" }).waitFor();
  await page.goto(`${service.url}/ui/transcripts/${long}?at=999999`);
  await page.getByText("End of turn 59").waitFor();
});

test("light, dark and on a phone, nothing is cut off and all is accessible", async () => {
  const { page } = await openKeyed("/ui/transcripts?project=temperature");
  await list(page).getByText("toCelsius").waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.getByRole("searchbox").fill("toCelsius test");
  await list(page).locator("mark").first().waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await list(page).getByRole("link").first().click();
  await page.locator("article[aria-current]").waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
});
