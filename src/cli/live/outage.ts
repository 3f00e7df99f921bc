import { ClientError } from "../../client/client-error.ts";
import { retry } from "../../lib/wait.ts";
import { CliError } from "../failure.ts";
import { duration } from "../text/duration.ts";

type Outage = {
  /** Asks the service anything; what it rejects with says whether the service is there. */
  probe: () => Promise<unknown>;
  signal: AbortSignal;
  onNote: (text: string) => void;
  /** How the user finds out later what has become of it, for when the patience is over. */
  later: string;
  /** How long the service may be away, ms. */
  patienceMs?: number | undefined;
};

const defaultPatienceMs = 10 * 60_000;

/**
 * Resolves when the service answers again.
 * @throws CliError when it is away for longer than the patience, ClientError when it says no
 */
export const sitOut = async (
  outage: ClientError,
  { probe, signal, onNote, later, patienceMs = defaultPatienceMs }: Outage,
): Promise<void> => {
  const since = performance.now();
  onNote(`The service is away (${outage.message}); trying again for up to ${duration(patienceMs)}`);
  const onFailure = (error: unknown): void => {
    signal.throwIfAborted();
    if (!isOutage(error)) throw error;
    if (performance.now() - since < patienceMs) return;
    throw new CliError(`The service has been away for ${duration(patienceMs)} (${error.message}). ${later}`, {
      code: error.code,
      cause: error,
    });
  };
  await retry(probe, { first: 500, longest: 5000, signal, onFailure });
  onNote("The service answers again");
};

/** No answer, or one that says "not now"; any other refusal will be the same next time. */
export const isOutage = (error: unknown): error is ClientError =>
  error instanceof ClientError && (error.status === 0 || error.status === 429 || error.status >= 500);
