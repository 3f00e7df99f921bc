import { z } from "zod";
import { ClientError } from "../client/client-error.ts";
import { createClient } from "../client/client.ts";
import { Instance } from "../contract/instance.ts";
import type { Remote } from "./fleet.ts";

const Overview = z.object({
  answered_by: z.string(),
  instances: z.array(Instance),
  queue: z.object({ waiting: z.int() }),
});
type Overview = z.infer<typeof Overview>;

/** `patience`: how long an instance may take to answer, seconds. */
export type Way = { apiKey: string | undefined; patience: number; signal: AbortSignal };

/** Asks the service at `url` for the instances that share its store. Rejects with a sentence that says what to do. */
export const askOverview = async (url: string, { apiKey, patience, signal }: Way): Promise<Overview> => {
  const limit = AbortSignal.timeout(patience * 1000);
  try {
    const client = createClient({ baseUrl: url, apiKey });
    const answer = await client.list_instances({}, { signal: AbortSignal.any([signal, limit]) });
    return Overview.parse(answer);
  } catch (cause) {
    signal.throwIfAborted();
    const late = `${url} has not answered within ${patience} s: look into the instance's log`;
    throw new Error(limit.aborted ? late : faultOf(cause, url), { cause });
  }
};

const faultOf = (cause: unknown, url: string): string => {
  if (cause instanceof ClientError && cause.code === "unreachable")
    return `No service answers at ${url}: start it with svc serve, or correct its address (SERVICE_HOST and SERVICE_PORT, SERVICE_REMOTES, SERVICE_ADDRESS)`;
  if (cause instanceof z.ZodError) return `${url} did not answer with a list of instances: check the address`;
  return cause instanceof Error ? cause.message : String(cause);
};

/** The instance that answered; null: it is not in the list at present. */
export const selfOf = ({ answered_by: self, instances }: Overview): Instance | null =>
  instances.find(({ name }) => name === self) ?? null;

export const remoteOf = ({
  instance,
  fault = null,
  ...rest
}: Pick<Remote, "name" | "source" | "url" | "instance" | "waiting"> & { fault?: string | null }): Remote => ({
  ...rest,
  kind: instance?.agent_mode === true ? "agent" : "orchestrator",
  state: fault !== null ? "unreachable" : instance?.draining === true ? "draining" : "ready",
  fault,
  instance,
});
