import type { ServiceError } from "../contract/errors.ts";
import type { Handlers, Operation, RequestContext } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { checkedInput } from "../http/faults.ts";
import { failureBody } from "../http/reply.ts";
import { serviceErrorOf } from "../http/reply.ts";
import type { Log } from "../lib/log.ts";

/** The body that REST would answer with; `code` is that of the failure, null when it is none. */
export type Answered = { body: Record<string, unknown>; code: string | null };

/** Asks an operation on behalf of a tool call. Does not reject. */
export type Answer = (
  name: keyof Operations,
  given: Record<string, unknown>,
  context: RequestContext & { requestId: string },
) => Promise<Answered>;

/** Answers by the handlers of this process. */
export const answerBy =
  (handlers: Handlers<Operations>, log: Log): Answer =>
  async (name, given, context) => {
    // The registry ties input and handler together by name; the compiler cannot follow that through a lookup.
    const handle = handlers[name] as (
      input: unknown,
      context: RequestContext,
    ) => Promise<Record<string, unknown>>;
    try {
      return { body: await handle(toolInput(name, given), context), code: null };
    } catch (error) {
      return failedBy(error, context, log);
    }
  };

/**
 * The arguments of a tool call as the operation's input.
 * @throws ServiceError invalid_request, in the words of REST
 */
export const toolInput = (name: keyof Operations, given: Record<string, unknown>): unknown => {
  const { input, mcpOmit = [] }: Operation = operations[name];
  const known = Object.keys(input.shape).filter((each) => !mcpOmit.includes(each));
  const strays = Object.keys(given).filter((each) => mcpOmit.includes(each));
  return checkedInput(input, given, { known, strays });
};

/** What is told of an error; one of a call that was stopped because its caller is gone is no fault of ours, and not logged. */
export const failedBy = (
  error: unknown,
  { signal, requestId }: { signal: AbortSignal; requestId: string },
  log: Log,
): Answered => failed(serviceErrorOf(error, { log: signal.aborted ? silent : log, requestId }));

export const failed = ({ code, message }: ServiceError): Answered => ({
  body: failureBody(code, message),
  code,
});

const silent: Pick<Log, "warn" | "error"> & Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
