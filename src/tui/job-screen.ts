import { isBug } from "../cli/failure.ts";
import { layoutOf } from "../cli/print.ts";
import { cost, counted } from "../view/columns.ts";
import { jobPage } from "../view/job.ts";
import { paintPatch } from "../view/patch.ts";
import { oneLine } from "../view/sanitise.ts";
import { paintStatus } from "../view/paint.ts";
import type { Client } from "../client/client.ts";
import { isFinal, type Job } from "../contract/job.ts";
import type { Remote } from "../fleet/fleet.ts";
import { pause } from "../lib/wait.ts";
import { createEventLines } from "./event-lines.ts";
import { commonKeys } from "./help.ts";
import { createScroll } from "./scroll.ts";
import { textScreen } from "./text-screen.ts";
import type { Screen } from "./ui.ts";
import type { World } from "./world.ts";

/** Bytes of a change that are shown; `svc diff` has more. */
const mostDiff = 500_000;
/** How long a request may take, and how long to wait before the next try, ms. */
const patienceMs = 60_000;
const againMs = 2000;

/** A job: its events as they come, its change, and the way to cancel it. */
export const jobScreen = ({ ui, fleet }: World, remote: Remote, id: string): Screen => {
  const { paint } = ui;
  const short = oneLine(id.slice(0, 8));
  const scroll = createScroll({ following: true });
  let job: Job | null = null;
  let events: ReturnType<typeof createEventLines> | null = null;
  let seen = 0;
  let fault = "";
  let isAsking = false;

  const ask = async <Answer>(
    question: (client: Client, signal: AbortSignal) => Promise<Answer>,
    leaving?: AbortSignal,
  ): Promise<Answer> => {
    const signal = AbortSignal.any([AbortSignal.timeout(patienceMs), ...(leaving ? [leaving] : [])]);
    await using reached = await fleet.reach(remote, signal);
    return await question(reached.client, signal);
  };

  /** Follows the job to its end. */
  const follow = async (signal: AbortSignal): Promise<void> => {
    await using reached = await fleet.reach(remote, signal);
    const { client } = reached;
    ({ job } = await client.get_job({ job_id: id }, { signal }));
    events ??= createEventLines(Date.parse(job.created_at), paint);
    fault = "";
    ui.redraw();
    const stream = client.events(id, { after: seen, signal, patienceMs: againMs });
    for (let next = await stream.next(); ; next = await stream.next()) {
      ui.redraw();
      if (next.done === true) {
        job = next.value;
        return;
      }
      seen = next.value.seq;
      events.add(next.value);
      if (next.value.type === "stage" && job.status === "queued") job = { ...job, status: "running" };
    }
  };

  const cancel = async (): Promise<void> => {
    ui.say(`Cancelling job ${short}`);
    ({ job } = await ask((client, signal) => client.cancel_job({ job_id: id }, { signal })));
    ui.say(`Job ${short} is ${job.status}`);
  };

  const page = (title: string, load: (client: Client, signal: AbortSignal) => Promise<string>) => (): void =>
    ui.open(textScreen(ui, { title, load: (leaving) => ask(load, leaving) }));

  const keys: Record<string, () => void> = {
    d: page(`Change of job ${short}`, async (client, signal) => {
      const body = await client.get_diff({ job_id: id, max_bytes: mostDiff }, { signal });
      if (body.files.length === 0) return `Job ${short} has changed nothing`;
      const rest = body.truncated ? `\n\nNot all of it: svc diff ${short} shows more` : "";
      return paintPatch(body.diff, paint) + rest;
    }),
    i: page(`Job ${short}`, async (client, signal) => {
      const answer = await client.get_job({ job_id: id }, { signal });
      return jobPage(answer.job, { ...layoutOf(process.stdout), now: Date.now() });
    }),
    c: () => {
      if (job !== null && isFinal(job.status)) ui.say(`Job ${short} has ended: ${job.status}`);
      else isAsking = true;
    },
  };

  return {
    title: () => {
      if (job === null) return `Job ${short}`;
      const { status, num_turns: turns, cost_usd: usd, cost_estimated, task } = job;
      const spent = usd === null ? null : cost(usd, cost_estimated);
      const figures = [turns === null ? null : counted(turns, "turn"), spent];
      const parts = [`Job ${short}`, paintStatus(status, paint), ...figures, oneLine(task.slice(0, 500))];
      return parts.filter((part) => part !== null).join("  ");
    },
    body: ({ columns, rows }) => {
      const failure = fault === "" ? [] : [paint("yellow", `! ${oneLine(fault)}`)];
      return [...failure, ...scroll.view(events?.lines(columns) ?? [], rows - failure.length)];
    },
    hints: () =>
      isAsking
        ? `Cancel job ${short}? y/N`
        : `${scroll.position()}  d diff  i about  c cancel  f follow  Esc back  ? help`,
    key: (key) => {
      if (isAsking) {
        isAsking = false;
        if (key === "y") ui.attempt(cancel);
      } else if (!scroll.key(key)) (keys[key] ?? commonKeys(ui)[key])?.();
    },
    watch: async (signal) => {
      while (!signal.aborted && (job === null || !isFinal(job.status) || events === null)) {
        await follow(signal).catch((error: unknown) => {
          if (isBug(error)) throw error;
          fault = error instanceof Error ? error.message : String(error);
        });
        ui.redraw();
        await pause(againMs, signal);
      }
    },
  };
};
