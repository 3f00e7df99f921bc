import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { chromium, type BrowserContextOptions, type Page } from "playwright-core";
import { makeRemoteIn } from "../remote.ts";
import { spawnService } from "../service-process.ts";
import { storeJobs } from "./stored-jobs.ts";
import { storeRuns } from "./stored-runs.ts";

/**
 * `npm run screenshots [-- DIRECTORY]`: takes the pictures of the page that the documentation shows, with a service of
 * its own: each part light, dark, and on a phone.
 */

const pictures = process.argv[2] ?? join(import.meta.dirname, "..", "..", "docs", "images");

const desk = { viewport: { width: 1280, height: 660 } };
const dark = { ...desk, colorScheme: "dark" } as const;
const phone = { viewport: { width: 390, height: 844 }, hasTouch: true };

/* What the agent does takes its time, or every time in the pictures would be 0. */
const steps = [
  { thinking: "The test fails only at night, so a time zone is likely. First the test, then the code." },
  { text: "I look at the **failing test** first." },
  {
    ms: 900,
    tool: {
      name: "Bash",
      input: { command: "npm test" },
      result: "1 failed: the day of a date\n  expected 2026-11-23, received 2026-11-22",
      isError: true,
    },
  },
  {
    ms: 400,
    tool: { name: "Read", input: { file_path: "src/date.ts" }, result: "export const day = local();" },
  },
  {
    ms: 1100,
    tool: {
      name: "Edit",
      input: {
        file_path: "src/date.ts",
        old_string: "  return at.getFullYear();",
        new_string: "  // The day of the instant, wherever the test runs.\n  return at.getUTCFullYear();",
      },
    },
  },
  { ms: 900, tool: { name: "Bash", input: { command: "npm test" }, result: "12 passed" } },
  {
    ms: 500,
    text: "The test compared local times. It now compares instants:\n\n- `day` is taken from the instant\n- a second test covers the night of the change",
  },
];

const before = `/** The day of an instant, as \`2026-11-23\`. */
export const day = (at: Date): string =>
  [at.getFullYear(), at.getMonth() + 1, at.getDate()].map(twoDigits).join("-");

const twoDigits = (part: number): string => String(part).padStart(2, "0");

/** Whether two instants are on the same day. */
export const isSameDay = (one: Date, other: Date): boolean => day(one) === day(other);
`;

const content = `/** The day of an instant in UTC, as \`2026-11-23\`. */
export const day = (at: Date): string => at.toISOString().slice(0, 10);

/** The night after the day: from its last instant to the first of the next. */
export const night = (at: Date): [Date, Date] => {
  const end = new Date(\`\${day(at)}T23:59:59.999Z\`);
  return [end, new Date(end.getTime() + 1)];
};

/** Whether two instants are on the same day. */
export const isSameDay = (one: Date, other: Date): boolean => day(one) === day(other);
`;

const directory = await mkdtemp(join(tmpdir(), "svc-"));
const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium-headless-shell",
  args: ["--disable-gpu"],
});
const remoteOf = async (owner: string, name: string, files: Record<string, string>): Promise<string> => {
  const at = join(directory, owner);
  await mkdir(at);
  const { path } = await makeRemoteIn(at, files);
  await rename(path, join(at, name));
  return join(at, name);
};
const app = await remoteOf("acme", "app", { "src/date.ts": before });
const hooks = await remoteOf("platform", "hooks", { "hooks.json": "{}\n" });

type Show = (url: string, id: string) => Promise<void>;

/** Runs a job whose agent acts that scenario, takes pictures, and ends the service. */
const withJob = async (scenario: string, show: Show): Promise<void> => {
  const home = await mkdtemp(join(directory, "ana-"));
  await Promise.all([storeJobs(home, 60), storeRuns(home)]);
  await mkdir(join(home, ".service", "profiles"));
  await writeFile(join(home, ".service", "profiles", "release.yml"), "- a list");
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
    FAKE_AGENT_SCENARIO: scenario,
    SERVICE_AGENT_ENV: "FAKE_AGENT_SCENARIO",
    SERVICE_POD_NAME: "build-1",
    SERVICE_BUDGET_DAY_USD: "5",
    SERVICE_HOOKS_URL: hooks,
    AGENT_MODE: "true",
  };
  const service = await spawnService({ home, env });
  try {
    const { job } = await service.client.run_task({
      task: "Move the date test to instants",
      repo_url: app,
      options: { model: "claude-sonnet-5" },
      wait: !scenario.startsWith("paced"),
    });
    await service.client.prepare_worktree({ repo_url: app, base_ref: "main" });
    await show(`${service.url}/ui`, job.id);
  } finally {
    await service.kill();
  }
};

const views: Record<string, BrowserContextOptions> = { light: desk, dark, phone };

/** Takes a picture of the address in each view, once `ready`. */
const take = async (name: string, url: string, ready: (page: Page) => Promise<void>): Promise<void> => {
  for (const [view, options] of Object.entries(views)) {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    await page.goto(url);
    await ready(page);
    await page.screenshot({ path: join(pictures, `${name}-${view}.png`), animations: "disabled" });
    await context.close();
  }
};

const seen =
  (text: string) =>
  (page: Page): Promise<void> =>
    page.locator("main").getByText(text).filter({ visible: true }).first().waitFor();

try {
  await mkdir(pictures, { recursive: true });
  await withJob('paced {"ms":500,"until":"never"}', (url) => take("jobs", `${url}/jobs`, seen("running")));
  await withJob(`chat ${JSON.stringify({ steps })}`, async (url, id) => {
    await take("job", `${url}/jobs/${id}`, async (page) => {
      await seen("npm test")(page);
      await page.keyboard.press("G");
      await seen("The agent is done")(page);
    });
    await take("chat", `${url}/chat`, async (page) => {
      await page.getByLabel("Message", { exact: true }).fill("Why does the date test fail at night?");
      await page.keyboard.press("Enter");
      await page.getByText(/tokens read/).waitFor();
    });
    await take("usage", `${url}/usage`, async (page) => {
      await page.locator(".chart").nth(3).waitFor();
      await page.getByRole("button", { name: "review" }).waitFor();
    });
    await take("fleet", `${url}/fleet`, seen("fetched"));
  });
  await withJob(`work ${JSON.stringify({ file: "src/date.ts", content })}`, (url, id) =>
    take("changes", `${url}/jobs/${id}?pane=changes`, seen("toISOString")),
  );
} finally {
  await browser.close();
  await rm(directory, { recursive: true, force: true });
}
