import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { JobDiff } from "../../src/contract/diff.ts";
import type { AgentEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";
import { asks } from "../asks.ts";
import { accessibilityFaults, accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { sampleLog } from "../cli/sample-job.ts";
import { cuttableWay } from "../cuttable.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";
import { openPage, scrollByWheel } from "./open-page.ts";
import { scriptTasks } from "./script-time.ts";

/* The page of one job, in a real browser, with the real service and the fake agent. */

const [service, browser, remote] = await Promise.all([
  startService({ env: { SERVICE_MAX_CONCURRENT_JOBS: "8" } }),
  openBrowser(),
  makeRemote({ "src/date.ts": "export const day = 1;\n" }),
]);
const ask = asks(service);
const scenario = (name: string, options: object = {}): string =>
  `scenario: ${name} ${JSON.stringify(options)}`;

const shortJob = await ask.submit({ task: scenario("noop"), repo_url: remote.path });

const open = (id: string, rest = "", options = {}) =>
  openPage(browser, service, `/ui/jobs/${id}${rest}`, options);
const entries = (page: Page) => page.getByRole("article");
const tab = (page: Page, name: string) => page.getByRole("tab", { name });

test("submit, watch, see the change while the agent works, cancel: by keys alone", async () => {
  const job = await ask.submit({
    task: `Count the steps\n${scenario("paced", { ms: 700, until: "never" })}`,
    repo_url: remote.path,
  });
  const { page, faults } = await open(job.id);
  await page.getByRole("heading", { name: "Count the steps" }).waitFor();
  await page.getByText("Step by step.").waitFor();
  expect(await page.title()).toMatch(/^running: Count the steps/);
  // Before there is a result.
  await page.locator(".facts").getByText("0 in, 20 out").waitFor();
  await page.getByText("step-3.txt").first().waitFor();
  await page.keyboard.press("2");
  const files = page.getByRole("navigation", { name: "Changed files" });
  await files.getByText("step-3.txt").waitFor();
  const shown = await files.getByRole("button").count();
  await until(async () => (await files.getByRole("button").count()) > shown, { what: "the change to grow" });
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press("x");
  await page.getByRole("dialog", { name: "Cancel this job?" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("cancelled").waitFor();
  await until(async () => (await page.title()).startsWith("cancelled: "));
  expect((await ask.get(job.id)).status).toBe("cancelled");
  await page.getByText("This is the work that was saved when the job ended.").waitFor();
  await page.getByRole("button", { name: "Copy checkout" }).waitFor();
  expect(faults).toEqual([]);
});

const conversation = [
  { thinking: "First the test, then the code." },
  { text: "I look at the **test**." },
  {
    tool: {
      name: "Bash",
      input: { command: "npm test" },
      result: "\u001B[31m1 failed\u001B[0m",
      isError: true,
    },
  },
  { tool: { name: "Read", input: { file_path: "src/date.ts" }, result: "export const day = 1;" } },
  {
    tool: { name: "Edit", input: { file_path: "src/date.ts", old_string: "day = 1", new_string: "day = 2" } },
  },
  { text: "It is mended." },
];

test("a job that has ended reads as a conversation; links lead to its events; every part is accessible and fits a phone", async () => {
  const job = await ask.ended((await ask.submit({ task: scenario("chat", { steps: conversation }) })).id);
  const { page } = await open(job.id);
  await page.getByRole("strong").getByText("test").waitFor();
  await page.getByText("1 failed", { exact: true }).waitFor();
  // Before the agent's first word, and after its last, there is one line of the service's.
  const rows = await entries(page).allInnerTexts();
  expect(rows[0]).toMatch(/queued · claimed.* · agent started/);
  expect(
    rows.filter((row) => /\b(queued|claimed|agent started|first output|result|ended)\b/.test(row)),
  ).toHaveLength(2);
  // There is nothing to check out.
  expect(await page.getByRole("button", { name: "Copy checkout" }).count()).toBe(0);
  await page.getByText("+ day = 2").waitFor();
  const result = page.getByText("export const day = 1;", { exact: true });
  expect(await result.count()).toBe(0);
  await page.getByText("Read src/date.ts").click();
  await result.waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  await page.setViewportSize({ width: 390, height: 800 });
  expect((await entries(page).locator("> div").first().boundingBox())?.x).toBeLessThan(20);
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("k");
  expect(new URL(page.url()).hash).toBe("#e1");
  await page.getByText("Read src/date.ts").click();
  await page.keyboard.press("/");
  await page.keyboard.type("Export CONST");
  await page.keyboard.press("Enter");
  await page.locator("[aria-current=true]").getByText("export const day = 1;", { exact: true }).waitFor();
  await page.keyboard.type("!");
  await page.keyboard.press("Enter");
  await page.getByText("Not found").waitFor();
  await page.keyboard.press("Escape");
  const link = entries(page).filter({ hasText: "It is mended." }).getByRole("link");
  const address = (await link.getAttribute("href")) ?? "";
  await page.goto(`${service.url}/ui/jobs/${job.id}${address}`);
  await page.reload();
  await page.locator("[aria-current=true]").getByText("It is mended.").waitFor();
  for (const [name, seen] of [
    ["Changes", "This job has changed nothing"],
    ["Output", "It is mended."],
    ["Details", job.session_id ?? ""],
  ] as const) {
    await tab(page, name).click();
    await page.getByRole("tabpanel").getByText(seen, { exact: true }).waitFor();
    expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  }
  await page.goto(`${service.url}/ui/jobs/${job.id.slice(0, 8)}?pane=details`);
  await page.getByText(`svc continue ${job.id.slice(0, 8)}`).waitFor();
  expect(new URL(page.url()).pathname).toBe(`/ui/jobs/${job.id}`);
  await page.keyboard.press("g");
  await page.keyboard.press("j");
  await page.waitForURL("**/ui/jobs");
});

test("run again and continue make one job each, and lead to it", async () => {
  const first = await ask.ended((await ask.submit({ task: scenario("remember") })).id);
  const { page } = await open(first.id);
  await page.getByRole("status").getByText("succeeded").waitFor();
  await page.keyboard.press("c");
  await page.getByLabel("What should the agent do next?").waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByLabel("What should the agent do next?").fill(scenario("remember", { again: true }));
  await page.keyboard.press("Control+Enter");
  await page.waitForURL((url) => !url.pathname.endsWith(first.id));
  await page.getByText("I remember 1 earlier prompts.").first().waitFor();
  const second = new URL(page.url()).pathname.split("/").at(-1) ?? "";
  expect((await ask.ended(second)).session_id).toBe(first.session_id);
  await page.goto(`${service.url}/ui/jobs/${first.id}`);
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Run again" }).dblclick();
  await page.waitForURL((url) => !url.pathname.endsWith(first.id));
  const { jobs } = await service.client.list_jobs({ limit: 100 });
  expect(jobs.filter(({ task }) => task === first.task)).toHaveLength(2);
});

test("another task after a fault is another job, the same task the same one", async () => {
  const first = await ask.ended((await ask.submit({ task: scenario("noop") })).id);
  const { page } = await open(first.id);
  await page.getByRole("button", { name: "Continue" }).click();
  const task = page.getByLabel("What should the agent do next?");
  const send = page.getByRole("dialog").getByRole("button", { name: "Continue" });
  const next = scenario("noop", { summary: "next" });
  // The service hears it, the page does not.
  await page.route("**/jobs", async (route) => {
    if (route.request().method() === "POST") await route.fetch();
    await (route.request().method() === "POST" ? route.abort() : route.continue());
  });
  await task.fill(next);
  for (let time = 0; time < 2; time += 1) {
    await send.click();
    const alert = page.getByRole("dialog").getByRole("alert");
    await until(async () => (await send.isEnabled()) && (await alert.innerText()) !== "", {
      what: "a fault",
    });
  }
  const made = async () =>
    (await service.client.list_jobs({ limit: 100 })).jobs.filter(
      (job) => job.session_id === first.session_id,
    );
  await until(async () => (await made()).every((job) => job.ended_at !== null), {
    what: "jobs that have ended",
  });
  await page.unroute("**/jobs");
  await task.fill(scenario("noop", { summary: "another" }));
  await send.click();
  await page.waitForURL((url) => !url.pathname.endsWith(first.id));
  expect((await made()).map((job) => job.task === next)).toEqual([false, true, false]);
});

test("what the agent writes is never markup, and steers nothing", async () => {
  const hostile = `<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`;
  const steps = [
    { thinking: hostile },
    { text: `${hostile} [click](javascript:document.title='owned') ![](http://127.0.0.1:1/x.png)` },
    { tool: { name: hostile, input: { command: hostile, nested: { __proto__: hostile } }, result: hostile } },
    { tool: { name: "Edit", input: { file_path: hostile, new_string: hostile, edits: "no list" } } },
    {
      tool: {
        name: "Bash",
        input: { command: "x" },
        result: `\u001B]0;owned\u0007\u001B[2J\u202Egnp.exe${"x".repeat(50_000)}`,
      },
    },
    { text: `${"> ".repeat(4000)}deep ${"*".repeat(1000)}` },
    { text: "\u202Edetrever" },
  ];
  const job = await ask.ended(
    (await ask.submit({ task: `${hostile}\n${scenario("chat", { steps, deltaLength: 1000 })}` })).id,
  );
  const { page, faults } = await open(job.id, "#e1");
  await page.getByText("\u{FFFD}detrever").first().waitFor();
  await page.getByRole("button", { name: /more characters$/ }).waitFor();
  await page.getByText("> > > > > > > >").first().waitFor();
  for (const name of ["Conversation", "Output", "Details"]) {
    await tab(page, name).click();
    expect(await page.locator("main img, main script, main a[href^=javascript]").count()).toBe(0);
    expect(await page.title()).not.toBe("owned");
  }
  expect(faults).toEqual([]);
});

test("an unknown job is said to be so, with a way back; one that failed says why and what to do at once", async () => {
  const failed = await ask.submit({ task: scenario("auth-error") });
  const { page } = await open("00000000-0000-4000-8000-000000000000");
  await page.getByRole("heading", { name: "This was not found" }).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
  await page.getByRole("link", { name: "Back to the list" }).click();
  await page.waitForURL("**/ui/jobs");
  await ask.ended(failed.id);
  await page.goto(`${service.url}/ui/jobs/${failed.id}`);
  await page.getByRole("status").getByText("failed").waitFor();
  await page.getByText(/What to do: .*AGENT_CLI_OAUTH_TOKEN/).waitFor();
  expect(await accessibilityFaults(page)).toEqual([]);
});

test("after broken connections every event is there once", async () => {
  const way = await cuttableWay(Number(new URL(service.url).port));
  const job = await ask.submit({ task: scenario("paced", { steps: 30, ms: 100 }), repo_url: remote.path });
  const url = `http://127.0.0.1:${way.port}`;
  const { page } = await openPage(browser, { url }, `/ui/jobs/${job.id}`);
  await page.getByText("step-2.txt").first().waitFor();
  way.cut();
  await page.getByText("The service does not answer").waitFor();
  way.mend();
  await page.getByText("step-12.txt").first().waitFor();
  way.interrupt();
  await page.getByRole("status").getByText("succeeded").waitFor();
  const seen = new Set<string>();
  await page.keyboard.press("g");
  await page.keyboard.press("g");
  await until(
    async () => {
      for (const text of await entries(page).allInnerTexts())
        for (const [step] of text.matchAll(/Write step-\d+\.txt/g)) seen.add(step);
      const shown = await page.evaluate<string[]>(
        `[...document.querySelectorAll("article .at")].map(({ hash }) => hash)`,
      );
      expect(new Set(shown).size).toBe(shown.length);
      await page.mouse.move(600, 500);
      await page.mouse.wheel(0, 300);
      return seen.size === 30;
    },
    { what: "each of thirty steps, once" },
  );
});

/** The page that was opened shows these events instead of its job's. */
const playEvents = async (page: Page, job: Job, events: AgentEvent[]): Promise<void> => {
  const lines = sampleLog(...events).map((event) => `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`);
  const body = `${lines.join("")}event: end\ndata: ${JSON.stringify({ job })}\n\n`;
  await page.route("**/events", (route) => route.fulfill({ contentType: "text/event-stream", body }));
};

const call = (id: string, command: string, parent: string | null = null): AgentEvent[] => [
  { type: "tool_use", id, name: "Bash", input: { command }, parent },
  { type: "tool_result", tool_use_id: id, content: "", is_error: false, parent },
];

test("of many calls of a subagent the first and the latest are shown, and those between when asked for", async () => {
  const job = await ask.ended(shortJob.id);
  const { page } = await open("none");
  const calls = Array.from({ length: 200 }, (_, n) => call(String(n), `call ${n}`, n === 0 ? null : "0"));
  await playEvents(page, job, calls.flat());
  await page.goto(`${service.url}/ui/jobs/${job.id}`);
  await page.getByText("call 199").waitFor();
  expect(await page.getByText("call 60").count()).toBe(0);
  await page.getByRole("button", { name: "149 more calls" }).click();
  await page.getByText("call 60").waitFor({ state: "attached" });
});

test("100,000 events, and a diff of 5 MB, come and scroll without long tasks", async () => {
  const job = await ask.ended(shortJob.id);
  const { page } = await open("none");
  const calls = Array.from({ length: 50_000 }, (_, n) => call(String(n), `echo ${n}`));
  await playEvents(page, job, calls.flat());
  const ofEvents = await scriptTasks(browser, page, async () => {
    await page.goto(`${service.url}/ui/jobs/${job.id}`);
    await until(async () => {
      await page.keyboard.press("G");
      return await page.getByText("echo 49999").first().isVisible();
    });
    await scrollByWheel(page, -1);
    await page.keyboard.press("/");
    await page.keyboard.type("echo 25000");
    await page.keyboard.press("Enter");
    await page.locator("[aria-current=true]").getByText("echo 25000").first().waitFor();
  });
  expectShort(ofEvents);

  const added = Array.from({ length: 1600 }, (_, n) => `+export const value${n} = "text ${n}"; // ${n}\n`);
  const paths = Array.from({ length: 64 }, (_, n) => `${n}-x.ts`);
  const patch = (path: string) =>
    `diff --git a/${path} b/${path}\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1,1600 @@\n${added.join("")}`;
  const diff: JobDiff = {
    job_id: job.id,
    source: "branch",
    base: null,
    head: null,
    diff_stat: { files: 64, insertions: 64 * 1600, deletions: 0 },
    files: paths.map((path) => ({
      path,
      old_path: null,
      status: "added",
      insertions: 1600,
      deletions: 0,
      binary: false,
      size: 60_000,
      left_out: false,
    })),
    diff: paths.map(patch).join(""),
    truncated: false,
    altered: false,
    note: null,
  };
  await page.unroute("**/events");
  await page.route("**/diff?*", (route) => route.fulfill({ json: { success: true, ...diff } }));
  const ofDiff = await scriptTasks(browser, page, async () => {
    await page.goto(`${service.url}/ui/jobs/${job.id}?pane=changes`);
    await page.getByText("value20").first().waitFor();
    await scrollByWheel(page, 1);
    await page.keyboard.press("]");
  });
  expectShort(ofDiff);
  const lines = page.getByRole("region", { name: "Changed lines" });
  expect(await lines.locator("strong").first().innerText()).toMatch(/x\.ts$/);
});

/** On a quiet machine all are below 50 ms. On one that others use, a few count some of their time. */
const expectShort = (tasks: number[]): void => {
  expect(tasks.length).toBeGreaterThan(5);
  expect(tasks[0]).toBeLessThan(500);
  expect(tasks[5]).toBeLessThan(100);
};
