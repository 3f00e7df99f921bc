import { setInterval } from "node:timers";
import { ClientError } from "../client/client-error.ts";
import { createClient, type Client } from "../client/client.ts";
import { toldFailure } from "../http/told-failure.ts";
import type { Log } from "../lib/log.ts";
import { failed, toolInput, type Answer } from "../mcp/answer.ts";

/** How often a caller that waits is told that the service is at work, ms; it knows more, but REST has no place for it. */
const tellEveryMs = 10_000;

type Dependencies = { url: string; apiKey: string | undefined; log: Log };

/** Answers by asking the service that runs at `url`, whose failures are passed on as they are. */
export const answerThrough = ({ url, apiKey, log }: Dependencies): Answer => {
  const client = createClient({ baseUrl: reachable(url), apiKey });
  return async (name, given, { signal, idempotencyKey, progress, requestId }) => {
    // The client is typed by operation; the compiler cannot follow that through a lookup.
    const ask = client[name] as (input: unknown, options: object) => ReturnType<Client[typeof name]>;
    const telling = setInterval(() => progress?.(`waiting for ${name}`), tellEveryMs);
    try {
      const input = toolInput(name, given);
      return {
        body: await ask(input, { signal, ...(idempotencyKey !== undefined && { idempotencyKey }) }),
        code: null,
      };
    } catch (error) {
      if (!(error instanceof ClientError)) return failed(toldFailure(error, { log, requestId }));
      const { message, code } = error;
      return { body: { success: false, error: message, code }, code };
    } finally {
      clearInterval(telling);
    }
  };
};

/** One that listens everywhere is asked on loopback. */
const reachable = (url: string): string =>
  url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
