import type { z } from "zod";
import type { Health, Readiness } from "../contract/instance.ts";
import { hasBody, type Operation } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { statusOf } from "../contract/errors.ts";
import { chatMethods, type ChatMethods } from "./chat.ts";
import { ClientError } from "./client-error.ts";
import { delay } from "./delay.ts";
import {
  createTransport,
  type HttpRequest,
  type ClientOptions,
  messages,
  type Transport,
} from "./transport.ts";
import type { JobEvent } from "../contract/event.ts";
import type { JobChange } from "../contract/job-list.ts";
import type { Job } from "../contract/job.ts";

type CallOptions = {
  signal?: AbortSignal;
  /** Repeating a call with the same key and input gives the same answer, whatever happened to the first one. */
  idempotencyKey?: string;
  /** Files that go with it, of an operation with `attach`. */
  attach?: readonly File[];
};

type Input<Name extends keyof Operations> = z.input<Operations[Name]["input"]>;
type Output<Name extends keyof Operations> = z.output<Operations[Name]["output"]>;

/** One method per operation of the registry; the input is optional where none of it is required. */
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
    /** Also when it is not ready. */
    ready: (options?: Pick<CallOptions, "signal">) => Promise<Readiness>;
    /** The job's events, live, across broken connections, until the job has ended; returns the final job. */
    events: (jobId: string, options?: Follow) => ReturnType<typeof followEvents>;
    /**
     * Changes of jobs, live, until the connection ends. What changed before `onOpen` is in the list; connect again after
     * the end, and read the list again.
     */
    changes: (options?: Pick<Follow, "signal"> & { onOpen?: () => void }) => AsyncIterable<JobChange>;
    /** The bytes of one of the job's `files`. */
    file: (jobId: string, path: string, options?: Pick<CallOptions, "signal">) => Promise<Response>;
    /** The events so far, also of a job that still runs. */
    eventsSoFar: (jobId: string, options?: Pick<CallOptions, "signal">) => AsyncIterable<JobEvent>;
  };

/** The REST door as functions. Every failure rejects with a `ClientError`. */
export const createClient = (options: ClientOptions): Client => {
  const transport = createTransport(options);

  const call =
    (operation: Operation) =>
    async (
      input: Record<string, unknown> = {},
      { signal, idempotencyKey, attach = [] }: CallOptions = {},
    ) => {
      const ask = attach.length === 0 ? requestOf(operation, input) : multipartOf(operation, input, attach);
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
    // Made by a loop over the registry, from which `Methods` is derived too; the compiler cannot relate the two.
    ...(methods as unknown as Methods),
    health: ({ signal } = {}) =>
      transport.json({ method: "GET", target: "/health", signal }) as Promise<Health>,
    ready: async ({ signal } = {}) =>
      (await transport.json({ method: "GET", target: "/ready", signal, answers: [503] })) as Readiness,
    ...chatMethods(transport),
    file: (jobId, path, { signal } = {}) => {
      const [id, name] = [jobId, path].map((each) => encodeURIComponent(each.toWellFormed()));
      const headers = { accept: "application/octet-stream" };
      return transport.open({ method: "GET", target: `/jobs/${id}/files/${name}`, headers, signal });
    },
    events: (jobId, follow = {}) => followEvents(transport, jobId, follow),
    changes: (options = {}) => readChanges(transport, options),
    eventsSoFar: (jobId, { signal } = {}) => readEvents(transport, jobId, signal),
  };
};

/**
 * The HTTP request for `operation` with `input`: path parameters in the path, the rest in the query or the JSON body.
 */
const requestOf = (operation: Operation, input: Record<string, unknown>): HttpRequest => {
  const { method, path } = operation.http;
  const inPath = new Set<string>();
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    inPath.add(name);
    return segment(operation, name, input[name]);
  });
  const rest = Object.entries(input).filter(([name, value]) => !inPath.has(name) && value !== undefined);
  if (hasBody(operation)) {
    return {
      method: method.toUpperCase(),
      target,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(Object.fromEntries(rest)),
    };
  }
  const query = new URLSearchParams(
    rest.map(([name, value]): [string, string] => [name, textOf(value)]),
  ).toString();
  return { method: method.toUpperCase(), target: query === "" ? target : `${target}?${query}` };
};

const multipartOf = (
  operation: Operation,
  input: Record<string, unknown>,
  attach: readonly File[],
): HttpRequest => {
  const { headers: _, ...ask } = requestOf(operation, input);
  const body = new FormData();
  body.append("job", JSON.stringify(input));
  for (const file of attach) body.append("attach", file, file.name);
  return { ...ask, body };
};

/** These would change the path instead of being part of it; no id looks like them. */
const notPathSegments = ["", ".", ".."];

const segment = (operation: Operation, name: string, value: unknown): string => {
  const text = textOf(value ?? "");
  if (notPathSegments.includes(text)) {
    const code = operation.errors.find((each) => statusOf[each] === 404) ?? "not_found";
    const message = `There is no ${name.replace(/_id$/, "")} ${JSON.stringify(text)}: give its id`;
    throw new ClientError(message, { status: 404, code });
  }
  return encodeURIComponent(text.toWellFormed());
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

export type Follow = {
  /** Only events with a greater number; default 0, from the beginning. */
  after?: number;
  signal?: AbortSignal;
  /** How long to try to reach the service again; default a minute. */
  patienceMs?: number;
  /** Called before each new try, with the time since the connection was lost, ms. */
  onRetry?: (failure: unknown, lostMs: number) => void;
};

/**
 * Follows a job through broken connections and restarts of the service. Every event comes once, in order. The first
 * connection must succeed; later ones are retried until the patience is over.
 */
async function* followEvents(
  transport: Transport,
  jobId: string,
  { after = 0, signal, patienceMs = 60_000, onRetry }: Follow,
): AsyncGenerator<JobEvent, Job, void> {
  let last = after;
  let everConnected = false;
  let brokenSince: number | undefined;
  let waits = 0;
  const onOpen = (): void => {
    everConnected = true;
    brokenSince = undefined;
  };
  for (;;) {
    let failure: unknown;
    try {
      const target = `/jobs/${encodeURIComponent(jobId)}/events`;
      const headers = last > 0 ? { "last-event-id": String(last) } : {};
      for await (const message of messages(transport, { method: "GET", target, headers, signal, onOpen })) {
        if (message.event === "end") return (JSON.parse(message.data) as { job: Job }).job;
        const event = JSON.parse(message.data) as JobEvent;
        waits = 0;
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      }
    } catch (error) {
      signal?.throwIfAborted();
      failure = error;
    }
    brokenSince ??= performance.now();
    const lostMs = performance.now() - brokenSince;
    if (isFinal(failure, everConnected && lostMs <= patienceMs)) throw failure;
    onRetry?.(failure, lostMs);
    await delay(pause(waits, failure), signal);
    waits += 1;
  }
}

async function* readEvents(
  transport: Transport,
  jobId: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<JobEvent, void, void> {
  const target = `/jobs/${encodeURIComponent(jobId)}/events?follow=false`;
  for await (const { event, data } of messages(transport, { method: "GET", target, headers: {}, signal }))
    if (event !== "end") yield JSON.parse(data) as JobEvent;
}

async function* readChanges(
  transport: Transport,
  { signal, onOpen }: { signal?: AbortSignal; onOpen?: () => void },
): AsyncGenerator<JobChange, void, void> {
  const open = onOpen === undefined ? {} : { onOpen };
  for await (const { data } of messages(transport, {
    method: "GET",
    target: "/jobs/changes",
    signal,
    ...open,
  }))
    yield JSON.parse(data) as JobChange;
}

/** Whether a retry is useless: the patience is over, or the service refuses for good. */
const isFinal = (failure: unknown, patient: boolean): failure is Error =>
  failure instanceof Error &&
  (!patient || (failure instanceof ClientError && failure.status >= 400 && failure.status < 500));

/** Milliseconds: what the service asks for, else a quarter second, doubled each time up to ten seconds. */
const pause = (waits: number, error: unknown): number => {
  const asked = error instanceof ClientError ? error.retryAfter : undefined;
  if (asked !== undefined) return Math.min(asked, 30) * 1000;
  return Math.min(10_000, 250 * 2 ** Math.min(waits, 10)) * (0.75 + Math.random() / 2);
};
