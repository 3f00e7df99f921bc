import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { Job, Waiting } from "../../src/contract/job.ts";
import { afterFile } from "../cleanup.ts";
import { startFakeModel } from "../fake-model/fake-model.ts";
import { asks } from "../asks.ts";
import { accessibilityFaultsInAllViews, openBrowser } from "../browser.ts";
import { sampleLog } from "../cli/sample-job.ts";
import { startService } from "../service.ts";
import { openPage } from "./open-page.ts";

/* What a job asks, in a real browser, with the real service; in most tests the job is not, which has ended. */

const [service, browser] = await Promise.all([startService(), openBrowser()]);
const ask = asks(service);
const { id } = await ask.ended((await ask.submit({ task: 'Mend it\nscenario: chat {"steps": []}' })).id);

const question: Waiting = {
  kind: "question",
  id: "toolu_1",
  questions: [
    {
      question: "Which database? <b>",
      header: "Database",
      options: [
        { label: "SQLite", description: "A file" },
        { label: "Postgres", description: "A server" },
      ],
      multi_select: false,
    },
    {
      question: "Which parts?",
      header: "Parts",
      options: [
        { label: "API", description: "" },
        { label: "Docs", description: "" },
      ],
      multi_select: true,
    },
  ],
  plan: null,
  asked_at: "2026-05-01T12:01:00.000Z",
  until: "2026-05-02T12:01:00.000Z",
};
const plan: Waiting = { ...question, kind: "plan", questions: [], plan: "# Steps\n\n1. Mend **it**" };

const log = sampleLog({ type: "text", block: 1, text: "I have a question." });

/** A page where the job waits until it is answered; `refusal` is what answers get as long as it is set. */
const openAsking = async (path: string, waiting: Waiting) => {
  const { page, faults } = await openPage(browser, service, "/ui/usage");
  const scene = { page, faults, sent: [] as unknown[], refusal: "", waiting: waiting as Waiting | null };
  const asking = (job: Job): Job =>
    job.id === id && scene.waiting !== null
      ? { ...job, status: "running", ended_at: null, waiting: scene.waiting }
      : job;
  await page.route(/\/jobs\?/, async (route) => {
    const { jobs, ...rest } = await service.client.list_jobs({ limit: 100 });
    return route.fulfill({ json: { ...rest, jobs: jobs.map(asking) } });
  });
  // The connection breaks off: the end is yet to come.
  const body = log.map((event) => `id: ${event.seq}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  await page.route(/\/events/, (route) => route.fulfill({ contentType: "text/event-stream", body }));
  await page.route(`${service.url}/jobs/${id}`, async (route) => {
    const { job } = await service.client.get_job({ job_id: id });
    return route.fulfill({ json: { success: true, job: asking(job) } });
  });
  await page.route(`${service.url}/jobs/${id}/answer`, async (route) => {
    scene.sent.push(route.request().postDataJSON());
    if (scene.refusal !== "")
      return route.fulfill({
        status: 409,
        json: { success: false, error: scene.refusal, code: "question_changed" },
      });
    scene.waiting = null;
    return route.fulfill({
      json: { success: true, job: (await service.client.get_job({ job_id: id })).job },
    });
  });
  await page.goto(service.url + path);
  return scene;
};
const form = (page: Page) => page.getByRole("region", { name: "The agent asks" });

test("questions are answered by keys alone, in options and own words; a refusal is told and loses nothing", async () => {
  const scene = await openAsking(`/ui/jobs/${id}`, question);
  const { page } = scene;
  await form(page).getByRole("group", { name: "Which database? <b>" }).waitFor();
  expect(await page.title()).toMatch(/^waiting: Mend it/);
  await page.getByRole("status").getByText("waiting").waitFor();
  expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
  const send = form(page).getByRole("button", { name: "Answer" });
  expect(await send.isDisabled()).toBe(true);
  // What it asks is answered first: one box is enough for a phone.
  expect(await page.getByLabel("What to say to the agent").isVisible()).toBe(false);
  await page.keyboard.press("a");
  expect(await page.evaluate("document.activeElement.closest('label').textContent")).toContain("SQLite");
  for (const key of ["ArrowDown", "Tab"]) await page.keyboard.press(key);
  await page.keyboard.type("version 17");
  expect(await send.isDisabled()).toBe(true);
  for (const key of ["Tab", "Space", "Tab", "Space", "Tab"]) await page.keyboard.press(key);
  await page.keyboard.type("and tests");
  scene.refusal = "The job waits for another answer by now";
  await page.keyboard.press("Control+Enter");
  await form(page).getByRole("alert").getByText(scene.refusal).waitFor();
  scene.refusal = "";
  await page.keyboard.press("Control+Enter");
  await form(page).waitFor({ state: "detached" });
  const answers = {
    "Which database? <b>": "Postgres: version 17",
    "Which parts?": ["API", "Docs", "and tests"],
  };
  expect(scene.sent).toEqual([
    { id: "toolu_1", answers },
    { id: "toolu_1", answers },
  ]);
  expect(scene.faults).toEqual([]);
});

test("a plan is read, and approved, changed, sent back or refused", async () => {
  const answered = async (act: (page: Page) => Promise<void>): Promise<unknown> => {
    const scene = await openAsking(`/ui/jobs/${id}`, plan);
    await form(scene.page).getByRole("strong").getByText("it", { exact: true }).waitFor();
    await act(scene.page);
    await form(scene.page).waitFor({ state: "detached" });
    expect(scene.faults).toEqual([]);
    return scene.sent[0];
  };
  const press = (page: Page, name: string) => form(page).getByRole("button", { name }).click();
  const write = (page: Page, text: string) => form(page).getByLabel("Words for the agent").fill(text);
  expect(
    await answered(async (page) => {
      expect(await accessibilityFaultsInAllViews(page)).toEqual([]);
      expect(await form(page).getByRole("button", { name: "Send back" }).isDisabled()).toBe(true);
      await write(page, "And test it");
      await press(page, "Approve");
    }),
  ).toEqual({ id: "toolu_1", approve: true, feedback: "And test it" });
  expect(
    await answered(async (page) => {
      await form(page).getByText("Change the plan").click();
      await form(page).getByLabel("The plan to go on by").fill("# Better");
      await press(page, "Approve");
    }),
  ).toEqual({ id: "toolu_1", approve: true, feedback: "", plan: "# Better" });
  expect(
    await answered(async (page) => {
      await write(page, "Smaller steps");
      await press(page, "Send back");
    }),
  ).toEqual({ id: "toolu_1", approve: false, feedback: "Smaller steps" });
  expect(await answered((page) => press(page, "Refuse"))).toEqual({ id: "toolu_1", approve: false });
});

test("a question of the real CLI comes while the page is open, and goes when it is answered", async () => {
  const model = await startFakeModel({ token: "model-token" });
  afterFile(() => model.close());
  const real = await startService({
    env: {
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../../node_modules/.bin/claude"),
      MODEL_API_BASE_URL: model.url,
      MODEL_API_AUTH_TOKEN: "model-token",
    },
  });
  const job = await asks(real).submit({ task: "Choose\nscenario: ask {}" });
  const { page } = await openPage(browser, real, `/ui/jobs/${job.id}`);
  await form(page).getByRole("radio", { name: "SQLite" }).check();
  await form(page).getByRole("button", { name: "Answer" }).click();
  await page.getByRole("status").getByText("succeeded").waitFor();
  expect(await form(page).count()).toBe(0);
  const { diff } = await real.client.get_diff({ job_id: job.id });
  expect(diff).toContain("SQLite");
});

test("a job that waits is the first of the list", async () => {
  await ask.ended((await ask.submit({ task: "A newer one" })).id);
  const { page } = await openAsking("/ui/jobs", question);
  const [first, second] = await Promise.all(
    [0, 1].map((at) => page.locator('[role="row"]:not(.heads)').nth(at).innerText()),
  );
  expect([first, second]).toEqual([
    expect.stringMatching(/waiting[^]*Mend it/),
    expect.stringContaining("A newer one"),
  ]);
});

test.each([
  ["a usage limit", "limit", "limited", "waits for the usage limit until"],
  ["a model that is away", "model", "running", "waits for the model, which did not answer: asked again at"],
] as const)(
  "a job that waits for %s says until when, on its page and in the list, and asks nothing",
  async (_what, kind, state, said) => {
    const until = "2026-05-01T13:00:00.000Z";
    const { page, faults } = await openAsking(`/ui/jobs/${id}`, { ...question, kind, questions: [], until });
    await page.getByRole("status").getByText(state).waitFor();
    await page.getByText(`${said} ${until}`).waitFor();
    expect(await form(page).count()).toBe(0);
    await page.goto(`${service.url}/ui/jobs`);
    await page.getByText(`→ ${said} ${until}`).waitFor();
    expect(faults).toEqual([]);
  },
);
