import { useEffect, useState } from "react";
import { ClientError } from "../../../src/client/client-error.ts";
import type { Job } from "../../../src/contract/job.ts";
import { isSeen, pause } from "../shell/changes.ts";
import { client, needsKey, queries } from "../shell/service.ts";
import { createStore } from "../shell/store.ts";
import { createConversation } from "./events.ts";

/** Milliseconds of work after which the browser may paint and answer. */
const sliceMs = 8;

export const setJob = (job: Job): void =>
  void queries.setQueryData(["get_job", { job_id: job.id }], { success: true, job });

/** A job's conversation, which grows; `version` changes with it. */
const createFollower = (id: string) => {
  const conversation = createConversation();
  const version = createStore(0);
  const failure = createStore<Error | null>(null);
  let shown: ReturnType<typeof setTimeout> | undefined;

  /** A long conversation is shown less often: each time costs a little for each of its entries. */
  const show = (): void => {
    shown ??= setTimeout(
      () => {
        shown = undefined;
        version.set(version.get() + 1);
      },
      Math.min(250, 16 + conversation.entries.length / 100),
    );
  };

  const readEvents = async (signal: AbortSignal): Promise<void> => {
    const events = client().events(id, { after: conversation.facts.seq, signal, patienceMs: Infinity });
    let sliceEnd = performance.now() + sliceMs;
    for (let next = await events.next(); ; next = await events.next()) {
      show();
      if (next.done === true) return setJob(next.value);
      conversation.add(next.value);
      if (performance.now() < sliceEnd) continue;
      await pause();
      sliceEnd = performance.now() + sliceMs;
    }
  };

  /** Until the job has ended or the service refuses for good. */
  const run = async (signal: AbortSignal): Promise<void> => {
    while (!signal.aborted) {
      try {
        return await readEvents(signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof Error)) return;
        if (error instanceof ClientError && error.status === 401) return needsKey.set(true);
        if (error instanceof ClientError && error.status >= 400 && error.status < 500)
          return failure.set(error);
        await pause(1000);
      }
    }
  };

  return { conversation, version, failure, run };
};

export type Follower = ReturnType<typeof createFollower>;

/** Follows the job while the component is shown and the tab is in front, through restarts of the service. */
export const useFollower = (id: string): Follower => {
  const [follower] = useState(() => createFollower(id));
  const isPaused = [needsKey.use(), !isSeen.use()].includes(true);
  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    void follower.run(stop.signal);
    return () => stop.abort();
  }, [follower, isPaused]);
  return follower;
};
