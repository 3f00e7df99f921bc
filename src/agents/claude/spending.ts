import { setTimeout as delay } from "node:timers/promises";
import type { Spending } from "../agent.ts";
import { UsageResponse } from "./wire.ts";

type Options = Omit<Spending, "ask"> & { write: (line: string) => void };

/** Watches what a process spends. `take` tells whether a line is the agent's answer to `ask`. */
export const createSpending = ({ meter, write, reported }: Options) => {
  let answer = Promise.withResolvers<Awaited<ReturnType<Spending["ask"]>>>();
  const ask: Spending["ask"] = async () => {
    answer = Promise.withResolvers();
    // Without the scan of all transcripts, in versions that know it.
    const request = { subtype: "get_usage", skip_behaviors: true };
    write(`${JSON.stringify({ type: "control_request", request_id: "usage", request })}\n`);
    return await Promise.race([answer.promise, delay(answerMs, null, { ref: false })]);
  };
  const take = (line: unknown): boolean => {
    const { success, data } = UsageResponse.safeParse(line);
    if (success) answer.resolve(data.response.response.session);
    return success;
  };
  return { spending: { meter, reported, ask }, take };
};

const answerMs = 10_000;
