import type { Instance, Overview } from "../../contract/instance.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { table, wrap, factLines, age, counted, duration } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";
import type { Profile } from "../../contract/profile.ts";
import { rememberJob, resolveJobId } from "../job-id.ts";
import { printEvents, waitForJob } from "../live/follow.ts";
import { jobPage } from "../../view/job-page.ts";

/** `svc instances` */
export const instances = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.list_instances(), json, (body, layout) => {
    const lines = body.instances.length === 0 ? [] : instanceTable(body.instances, layout, Date.now());
    return [...lines, ...queueLines(body, layout)].join("\n");
  });

/** One line per instance. The name is last: a narrow terminal may cut it. */
export const instanceTable = (list: readonly Instance[], layout: Layout, now: number): string[] =>
  table(
    list,
    [
      ["STATE", (each) => state(each, layout)],
      ["RUNNING", (each) => `${each.running} of ${each.max_parallel_jobs}`, "right"],
      ["TURNS", ({ turns }) => String(turns), "right"],
      ["UP", (each) => age(now - Date.parse(each.started_at)), "right"],
      ["VERSION", ({ version }) => oneLine(version)],
      ["NAME", ({ name }) => oneLine(name)],
    ],
    layout,
  );

const state = ({ draining }: Instance, { paint }: Layout): string =>
  draining ? paint("yellow", "draining") : paint("green", "ready");

/** Length of the queue and its workers; jobs lost with an instance only when there are any. */
export const queueLines = (
  { queue, instances: list, lost, recovered }: Overview,
  { paint, columns = Infinity }: Layout,
): string[] => {
  const { waiting, running, oldest_wait_seconds: oldest } = queue;
  const longest = oldest === null ? "" : `, the oldest for ${duration(oldest * 1000)}`;
  const shares = list.length === 0 ? "" : `: ${list.map(share).join(", ")}`;
  return [
    `${waiting} waiting${longest}; ${running} running${shares}`,
    ...(lost + recovered > 0
      ? [`${counted(lost, "job")} failed with a lost instance, ${recovered} queued again after one`]
      : []),
  ].flatMap((line) => wrap(line, columns).map((row) => paint("dim", row)));
};

const share = ({ name, running, max_parallel_jobs: most, draining }: Instance): string =>
  `${oneLine(name)} ${running} of ${most}${draining ? " (draining)" : ""}`;

/** `svc profiles` */
export const profiles = async ({ json }: { json?: boolean }): Promise<ExitCode> =>
  printAnswer(await connect().client.list_profiles(), json, ({ profiles: list }, layout) =>
    list.length === 0 ? "No profiles" : list.map((profile) => profileEntry(profile, layout)).join("\n\n"),
  );

/** A profile with what it does; a broken one with its fault instead. */
export const profileEntry = (profile: Profile, { paint, columns = Infinity }: Layout): string => {
  const { error, max_turns: turns } = profile;
  const broken = error !== null;
  const facts = factLines(
    [
      ["description", oneLine(profile.description), "prose"],
      ["error", broken ? paint("red", oneLine(error)) : null],
      ["model", broken ? null : oneLine(profile.model)],
      ["max_turns", broken || turns === null ? null : String(turns)],
      ["auto_pr", broken ? null : String(profile.auto_pr)],
      ["source", oneLine(profile.source)],
    ],
    { paint, columns: columns - indent.length },
  );
  return [paint("bold", oneLine(profile.name)), ...facts.map((line) => `${indent}${line}`)].join("\n");
};

const indent = "  ";

export type JobOptions = { events?: boolean; json?: boolean };

/** `svc job` */
export const job = async (word: string, { events = false, json = false }: JobOptions): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_job({ job_id: await resolveJobId(client, word) });
  await rememberJob(body.job.id);
  if (events) return json ? printEvents(client, body.job.id) : waitForJob({ client, job: body.job, json });
  return printAnswer(body, json, (_, layout) => jobPage(body.job, { ...layout, now: Date.now() }));
};

/** `svc cancel` */
export const cancel = async (word: string, { json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.cancel_job({ job_id: await resolveJobId(client, word) });
  await rememberJob(body.job.id);
  return printAnswer(body, json, ({ job: { id, status, worktree_path: worktree } }) => {
    if (status !== "cancelled") return `Job ${id} had ended before: ${status}`;
    const short = id.slice(0, 8);
    const work = `\nWhat it has changed is saved once its agent has ended: svc diff ${short}, svc checkout ${short}`;
    return `Job ${id} is cancelled${worktree === null ? "" : work}`;
  });
};
