import { spawn } from "node:child_process";
import { once } from "node:events";
import type { JobEvent } from "../../contract/event.ts";
import { isFinal, type Job } from "../../contract/job.ts";
import { connect } from "../connect.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { findJob } from "../job-id.ts";
import { exitOf, followAnswering, printEvents, waitForJob } from "../live/follow.ts";
import { plainView } from "../live/view.ts";
import { layoutOf, note, print } from "../print.ts";
import { oneLine } from "../../view/sanitise.ts";
import { type Fact, factLines } from "../../view/columns.ts";
import { outcomeFacts, statusText } from "../../view/job.ts";
import { pauseNote } from "../../view/waiting.ts";

type LogsOptions = { follow?: boolean; json?: boolean };

/** `svc logs`: what happened so far, or with `follow` until the job has ended. */
export const logs = async (word: string, { follow = false, json = false }: LogsOptions) => {
  const { client } = connect();
  const job = await findJob(client, word);
  if (follow) return json ? printEvents(client, job.id) : waitForJob({ client, job, json });
  const view = plainView(process.stdout, Date.parse(job.created_at));
  for await (const event of client.eventsSoFar(job.id)) {
    if (json) print(JSON.stringify(event));
    else view.event(event);
  }
  view.close();
  if (!json && isFinal(job.status) && job.status !== "succeeded") {
    const layout = layoutOf(process.stdout);
    const facts = [...outcomeFacts(job, layout), ["Next", `svc job ${job.id.slice(0, 8)}`] satisfies Fact];
    print(`\n${factLines(facts, layout).join("\n")}`);
  }
  return exitCode.ok;
};

/** `svc wait`: prints a line for each job when it has ended; the first that waits for an answer is the end of all. */
export const wait = async (words: string[], { json = false }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  return await interruptible(async (interrupted) => {
    const over = new AbortController();
    const signal = AbortSignal.any([interrupted, over.signal]);
    const jobs: Job[] = [];
    for (const word of words) jobs.push(await findJob(client, word, signal));
    const asking = Promise.withResolvers<ExitCode[]>();
    const exits = jobs.map(async ({ id: jobId }) => {
      const onEvent = (event: JobEvent): void => {
        const said = pauseNote(event);
        if (said !== null) note(`${jobId.slice(0, 8)} ${said}`);
      };
      const last = await followAnswering({ client, jobId, signal, onEvent, onNote: note });
      print(json ? JSON.stringify(last) : endLine(last));
      const exit = exitOf(last);
      if (exit === exitCode.waiting) asking.resolve([exit]);
      return exit;
    });
    try {
      return Math.max(...(await Promise.race([Promise.all(exits), asking.promise]))) as ExitCode;
    } finally {
      over.abort();
    }
  });
};

const endLine = (job: Job): string => {
  const { id, pr_url } = job;
  const how = statusText(job, layoutOf(process.stdout).paint);
  return [id, how, ...(pr_url === null ? [] : [oneLine(pr_url)])].join("  ");
};

/** `svc open`: the pull request, or where there is none or `page` is set the page of the service; a URL without a screen. */
export const open = async (word: string | undefined, { page = false }: { page?: boolean }) => {
  const { client, baseUrl } = connect();
  let url = `${baseUrl}/ui/jobs`;
  if (word !== undefined) {
    const job = await findJob(client, word);
    url = page || job.pr_url === null ? `${url}/${job.id}` : job.pr_url;
  }
  const browser = browserOf();
  const isOpened = browser !== null && /^https?:\/\//.test(url) && (await starts(browser, url));
  if (isOpened) note(`Opened ${oneLine(url)}`);
  else print(oneLine(url));
  return exitCode.ok;
};

/** Null: there is no screen to show one. */
const browserOf = (): string | null => {
  const { BROWSER, DISPLAY, WAYLAND_DISPLAY } = process.env;
  const ofSystem = process.platform === "darwin" ? "open" : DISPLAY || WAYLAND_DISPLAY ? "xdg-open" : null;
  return BROWSER || ofSystem;
};

const starts = async (browser: string, url: string): Promise<boolean> => {
  const child = spawn(browser, [url], { stdio: "ignore", detached: true });
  child.unref();
  return await once(child, "spawn").then(Boolean, () => false);
};
