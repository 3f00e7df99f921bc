import { setInterval } from "node:timers";
import { ClientError } from "../client/client-error.ts";
import { createClient, type Client } from "../client/client.ts";
import type { Log } from "../lib/log.ts";
import { failedBy, toolInput, type Answer } from "../mcp/answer.ts";
import { heartbeat, progressOf } from "./wait-for-job.ts";

type Dependencies = { url: string; apiKey: string | undefined; log: Log };

/** Answers by asking the service that runs at `url`, whose failures are passed on as they are. */
export const answerThrough = ({ url, apiKey, log }: Dependencies): Answer => {
  const client = createClient({ baseUrl: reachable(url), apiKey });
  return async (name, given, context) => {
    const { signal, idempotencyKey, progress } = context;
    // The client is typed by operation; the compiler cannot follow that through a lookup.
    const ask = client[name] as (input: unknown, options: object) => ReturnType<Client[typeof name]>;
    const stopTelling = progress === undefined ? null : tell(client, { name, given, progress });
    try {
      const input = toolInput(name, given);
      return {
        body: await ask(input, { signal, ...(idempotencyKey !== undefined && { idempotencyKey }) }),
        code: null,
      };
    } catch (error) {
      if (!(error instanceof ClientError)) return failedBy(error, context, log);
      const { message, code } = error;
      return { body: { success: false, error: message, code }, code };
    } finally {
      stopTelling?.();
    }
  };
};

type Telling = { name: string; given: Record<string, unknown>; progress: (message: string) => void };

/**
 * REST has no place for progress: the job is looked at from time to time instead, and of other calls only told that they are
 * under way. Returns how to stop it.
 */
const tell = (client: Client, { name, given, progress }: Telling): (() => void) => {
  const { job_id } = given;
  const look = async (): Promise<void> => {
    if (name !== "wait_for_job" || typeof job_id !== "string") return progress(`waiting for ${name}`);
    const { job } = await client.get_job({ job_id });
    progress(progressOf(job));
  };
  // What is wrong with the service is told by the answer to the call itself.
  const lookQuietly = (): void => void look().catch(() => undefined);
  lookQuietly();
  const timer = setInterval(lookQuietly, heartbeat);
  return () => clearInterval(timer);
};

/** One that listens everywhere is asked on loopback. */
const reachable = (url: string): string =>
  url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
