import type { z } from "zod";
import type { Health } from "../contract/health.ts";
import type { Operation } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { chatMethods, type ChatMethods } from "./chat.ts";
import { followEvents, type Follow } from "./events.ts";
import { requestOf } from "./request.ts";
import { createTransport, type ClientOptions } from "./transport.ts";

type CallOptions = {
  signal?: AbortSignal;
  /** The same key with the same input gives the same answer, whatever happened to the first one. */
  idempotencyKey?: string;
};

type Input<Name extends keyof Operations> = z.input<Operations[Name]["input"]>;
type Output<Name extends keyof Operations> = z.output<Operations[Name]["output"]>;

/** One method per operation of the registry; the input may be left out where nothing in it is required. */
type Methods = {
  [Name in keyof Operations]: (
    ...args: Record<never, never> extends Input<Name>
      ? [input?: Input<Name>, options?: CallOptions]
      : [input: Input<Name>, options?: CallOptions]
  ) => Promise<Output<Name>>;
};

export type Client = Methods &
  ChatMethods & {
    health: (options?: Pick<CallOptions, "signal">) => Promise<Health>;
    /**
     * The job's events as they come, also across broken connections, until the job has ended; returns the final job.
     */
    events: (jobId: string, options?: Follow) => ReturnType<typeof followEvents>;
  };

/** The REST door as functions. Whatever is not a success rejects with a `ClientError`. */
export const createClient = (options: ClientOptions): Client => {
  const transport = createTransport(options);

  const call =
    (operation: Operation) =>
    async (input: Record<string, unknown> = {}, { signal, idempotencyKey }: CallOptions = {}) => {
      const ask = requestOf(operation, input);
      const headers = {
        ...ask.headers,
        ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
      };
      return transport.json({ ...ask, headers, signal });
    };
  const methods = Object.fromEntries(
    Object.entries<Operation>(operations).map(([name, operation]) => [name, call(operation)]),
  );

  return {
    // Made by a loop over the registry, from which `Methods` is derived too; the compiler cannot tie the two.
    ...(methods as unknown as Methods),
    health: ({ signal } = {}) =>
      transport.json({ method: "GET", target: "/health", signal }) as Promise<Health>,
    ...chatMethods(transport),
    events: (jobId, follow = {}) => followEvents(transport, jobId, follow),
  };
};
