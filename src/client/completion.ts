import { isCompletionFinal, type Completion } from "../contract/completion.ts";
import type { Client } from "./client.ts";
import { delay } from "./delay.ts";

/** Asks again and again: an answer may take an hour, and no connection has to last as long. Interrupted, it cancels. */
export const untilAnswered = async (
  client: Pick<Client, "get_completion" | "cancel_completion">,
  uuid: string,
  signal: AbortSignal,
): Promise<Completion> => {
  try {
    for (let pause = 100; ; pause = Math.min(1000, pause * 2)) {
      const { completion } = await client.get_completion({ uuid }, { signal });
      if (isCompletionFinal(completion.status)) return completion;
      await delay(pause, signal);
    }
  } catch (error) {
    const limit = AbortSignal.timeout(5000);
    if (signal.aborted) await client.cancel_completion({ uuid }, { signal: limit }).catch(() => undefined);
    throw error;
  }
};
