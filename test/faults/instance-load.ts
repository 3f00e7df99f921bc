import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { World } from "./instance-world.ts";

/** A job that was accepted, and what was asked with it. */
export type Accepted = {
  id: string;
  retryLost: boolean;
  pushes: boolean;
  /** Instance on whose disk its worktree was prepared; null: it has one of its own. */
  boundTo: string | null;
  /** A cancel was asked for; `answered`: with what status. */
  cancel: { asked: boolean; answered: string | null };
};

/** Prepared worktrees by instance. */
export type Prepared = Map<string, string>;

const tasks = [
  'scenario: paced {"steps": 4, "ms": 60, "own": true}',
  'scenario: paced {"steps": 8, "ms": 60, "linger": true, "own": true}',
  'scenario: paced {"steps": 3, "ms": 20, "linger": true, "own": true}',
  'scenario: paced {"steps": 1, "ms": 1, "own": true}',
  "scenario: commit-nothing",
];

/** A worktree on each living instance, ready to be used. */
export const prepareWorktrees = async (world: World): Promise<Prepared> => {
  const made = await Promise.all(
    world.living().map(async ({ name, service }) => {
      const { worktree } = await service.client.prepare_worktree({ repo_url: world.remote.path });
      return [name, worktree.worktree_id] as const;
    }),
  );
  return new Map(made);
};

/** Submits one job of a random kind through a random instance; once, whatever happens to the request. */
export const submitOne = async (
  world: World,
  { random, prepared }: { random: () => number; prepared: Prepared },
): Promise<Accepted> => {
  const task = tasks[Math.floor(random() * tasks.length)] ?? "";
  const dice = random();
  const profile = dice < 0.35 ? "stubborn" : dice < 0.5 ? "quiet" : "code";
  const places = world.living().filter(({ name }) => prepared.has(name));
  const place = random() < 0.25 ? places[Math.floor(random() * places.length)] : undefined;
  const input = {
    task,
    profile,
    ...(place === undefined
      ? { repo_url: world.remote.path }
      : { worktree_id: prepared.get(place.name) ?? "" }),
  };
  const idempotencyKey = randomUUID();
  const { job } = await world.ask(random, (client) => client.run_task(input, { idempotencyKey }));
  return {
    id: job.id,
    retryLost: profile === "stubborn",
    pushes: profile !== "quiet",
    boundTo: place?.name ?? null,
    cancel: { asked: false, answered: null },
  };
};

/** Cancels it a little later through a random instance. */
export const cancelSoon = async (world: World, job: Accepted, random: () => number): Promise<void> => {
  await delay(random() * 900);
  job.cancel.asked = true;
  const answer = await world.ask(random, (client) => client.cancel_job({ job_id: job.id }));
  job.cancel.answered = answer.job.status;
};
