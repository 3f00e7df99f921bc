import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { chromium, type BrowserContextOptions } from "playwright-core";
import { makeRemoteIn } from "../remote.ts";
import { spawnService } from "../service-process.ts";
import { storeJobs } from "./stored-jobs.ts";

/** `npm run screenshots`: takes the pictures of the page that the documentation shows, with a service of its own. */

const pictures = join(import.meta.dirname, "..", "..", "docs", "images");

const desk = { viewport: { width: 1280, height: 800 } };
const dark = { ...desk, colorScheme: "dark" } as const;
const phone = { viewport: { width: 390, height: 844 }, hasTouch: true };

const steps = [
  { thinking: "The test fails only at night, so a time zone is likely. First the test, then the code." },
  { text: "I look at the **failing test** first." },
  {
    tool: {
      name: "Bash",
      input: { command: "npm test" },
      result: "1 failed: the day of a date",
      isError: true,
    },
  },
  { tool: { name: "Read", input: { file_path: "src/date.ts" }, result: "export const day = local();" } },
  {
    tool: {
      name: "Edit",
      input: { file_path: "src/date.ts", old_string: "day = local()", new_string: "day = instant()" },
    },
  },
  { tool: { name: "Bash", input: { command: "npm test" }, result: "12 passed" } },
  {
    text: "The test compared local times. It now compares instants:\n\n- `day` is taken from the instant\n- a second test covers the night of the change",
  },
];

const content = "export const day = instant();\nexport const night = instant(-1);\n";

const directory = await mkdtemp(join(tmpdir(), "svc-pictures-"));
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--disable-gpu"] });
const owner = join(directory, "acme");
await mkdir(owner);
const remote = await makeRemoteIn(owner, { "src/date.ts": "export const day = local();\n" });

/** Runs a job whose agent acts that scenario, takes pictures, and ends the service. */
const withJob = async (scenario: string, show: (url: string, id: string) => Promise<void>): Promise<void> => {
  const home = await mkdtemp(join(directory, "home-"));
  await storeJobs(home, 60);
  const env = {
    PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
    FAKE_AGENT_SCENARIO: scenario,
    SERVICE_AGENT_ENV: "FAKE_AGENT_SCENARIO",
  };
  const service = await spawnService({ home, env });
  try {
    const wait = !scenario.startsWith("paced");
    const { job } = await service.client.run_task({
      task: "Move the date test to instants",
      repo_url: remote.path,
      wait,
    });
    await show(`${service.url}/ui`, job.id);
  } finally {
    await service.kill();
  }
};

const picture = async (name: string, url: string, options: BrowserContextOptions): Promise<void> => {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.goto(url);
  await page.waitForTimeout(3000);
  await page.screenshot({ path: join(pictures, `${name}.png`) });
  await context.close();
};

try {
  await mkdir(pictures, { recursive: true });
  await withJob('paced {"ms":500,"until":"never"}', async (url) => {
    await picture("jobs-light", `${url}/jobs`, desk);
    await picture("jobs-phone", `${url}/jobs`, phone);
  });
  await withJob(`chat ${JSON.stringify({ steps })}`, (url, id) =>
    picture("job-dark", `${url}/jobs/${id}`, dark),
  );
  await withJob(`work ${JSON.stringify({ file: "src/date.ts", content })}`, (url, id) =>
    picture("changes-light", `${url}/jobs/${id}?pane=changes`, desk),
  );
} finally {
  await browser.close();
  await rm(directory, { recursive: true, force: true });
}
