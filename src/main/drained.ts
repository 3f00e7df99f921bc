import { setTimeout as delay } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import type { Instances } from "../store/instances.ts";
import type { JobStore } from "../store/job-store.ts";

type Dependencies = {
  store: Pick<JobStore, "unsettled" | "get">;
  instances: Pick<Instances, "askToDrain" | "list">;
};

type Request = {
  /** The instance that is to take no new jobs. */
  name: string;
  /** How long its jobs are waited for, seconds. */
  timeout: number;
  signal: AbortSignal;
  /** Told what is waited for, a sentence each time. */
  say: (sentence: string) => void;
};

/** `left`: what it still runs; null: it has not said that it takes no new jobs. */
export type Drained =
  | { outcome: "drained"; jobs: string[]; seconds: number }
  | { outcome: "absent" }
  | { outcome: "late"; left: string | null }
  | { outcome: "interrupted"; takenBack: boolean };

/** How much longer than it is waited for it takes no new jobs, seconds: after a wait in vain it is about to be stopped. */
export const flagMargin = 60;

const interval = 500;
const progressEvery = 10_000;
const askEvery = 2000;

/**
 * Asks an instance to take no new jobs and waits until it runs none, nor a turn. Then, and when interrupted, the request is taken
 * back; when it has not ended in time the request is left to lapse, so that no job begins just before the end.
 * @throws ServiceError `store_unavailable` when the store is away at the beginning; later it is waited for
 */
export const untilDrained = async (
  { store, instances }: Dependencies,
  { name, timeout, signal, say }: Request,
): Promise<Drained> => {
  const began = performance.now();
  const left = (): number => timeout - (performance.now() - began) / 1000;
  const look = lookAt({ store, instances }, name);
  const seen = new Set<string>();
  let told = { at: began, what: "" };
  let away = false;
  let asked = began;

  const tell = (what: string): void => {
    const now = performance.now();
    if (told.what !== "" && now - told.at < progressEvery) return;
    say(told.what === "" ? `Waiting for ${what}, at most ${timeout} s` : `Still waiting for ${what}`);
    told = { at: now, what };
  };

  const lookAgain = async (last: Look): Promise<Look> => {
    try {
      // A store that was restarted may have forgotten what was asked, another drain may have taken it back.
      if (away || performance.now() - asked > askEvery) {
        await instances.askToDrain(name, Math.max(0, Math.ceil(left())) + flagMargin);
        asked = performance.now();
      }
      const found = await look();
      if (away) say("The key-value store can be reached again");
      away = false;
      return found;
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code !== "store_unavailable") throw error;
      if (!away) say(`${error.message}; waiting for it`);
      away = true;
      return last;
    }
  };

  const takeBack = (): Promise<boolean> =>
    instances.askToDrain(name, 0).then(
      () => true,
      () => {
        say(`It could not be taken back that ${name} takes no new jobs: that ends by itself`);
        return false;
      },
    );

  await instances.askToDrain(name, timeout + flagMargin);
  try {
    let found = await look();
    const absent = !found.alive && found.jobs.length === 0;
    while (away || found.jobs.length > 0 || found.unheard) {
      for (const id of found.jobs) seen.add(id);
      const work = workOf(found);
      if (left() <= 0) return { outcome: "late", left: work };
      tell(work ?? `${name} to take no new jobs`);
      await delay(Math.min(interval, Math.max(0, left() * 1000)), undefined, { signal });
      found = await lookAgain(found);
    }
    await takeBack();
    if (absent) return { outcome: "absent" };
    return { outcome: "drained", jobs: [...seen], seconds: timeout - left() };
  } catch (error) {
    const takenBack = await takeBack();
    if (signal.aborted) return { outcome: "interrupted", takenBack };
    throw error;
  }
};

/** As many jobs, and which. */
export const listed = (ids: readonly string[]): string =>
  `${ids.length} ${ids.length === 1 ? "job" : "jobs"} (${ids.join(", ")})`;

/** `unheard`: it lives and has not said yet that it takes no new work and runs none. */
type Look = { alive: boolean; jobs: string[]; turns: number; unheard: boolean };

/** Null: none. */
const workOf = ({ jobs, turns }: Look): string | null => {
  const parts = [
    ...(jobs.length === 0 ? [] : [listed(jobs)]),
    ...(turns === 0 ? [] : [`${turns} ${turns === 1 ? "turn" : "turns"}`]),
  ];
  return parts.length === 0 ? null : parts.join(" and ");
};

const lookAt =
  ({ store, instances }: Dependencies, name: string) =>
  async (): Promise<Look> => {
    // Its word first: once it has said that it claims no more, the runs that are found afterwards are the last ones.
    const self = (await instances.list()).find((each) => each.name === name);
    const runs = (await store.unsettled()).filter(({ podName }) => podName === name).map(({ id }) => id);
    if (self !== undefined) {
      const { draining, running, turns } = self;
      return { alive: true, jobs: runs, turns, unheard: !draining || running + turns > 0 };
    }
    // Nobody is there to clean up after what has ended: its next start will. What counts as running may be, on a machine that is cut off.
    const records = await Promise.all(runs.map((id) => store.get(id)));
    const jobs = runs.filter((_, index) => records[index]?.status === "running");
    return { alive: false, jobs, turns: 0, unheard: false };
  };
