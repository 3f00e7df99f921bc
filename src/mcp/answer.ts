import type { ServiceError } from "../contract/errors.ts";
import type { Definitions, Handlers, McpOperation, RequestContext } from "../contract/operation.ts";
import { checkedInput } from "../http/faults.ts";
import { failureBody, serviceErrorOf } from "../http/route.ts";
import type { Log } from "../lib/log.ts";

/** `body`: what REST would answer with. `code`: that of the failure; null: success. */
export type Answered = { body: Record<string, unknown>; code: string | null };

/** Performs the operation of a tool call. Never rejects. */
export type Answer = (
  name: string,
  given: Record<string, unknown>,
  context: RequestContext & { requestId: string },
) => Promise<Answered>;

export const answerBy =
  <Ops extends Definitions>(operations: Ops, handlers: Handlers<Ops>, log: Log): Answer =>
  async (name, given, context) => {
    // Input and handler fit each other by name, which the compiler cannot see in a lookup.
    const handle = handlers[name as keyof Ops] as unknown as (
      input: unknown,
      context: RequestContext,
    ) => Promise<Record<string, unknown>>;
    try {
      return { body: await handle(toolInput(operations[name] as McpOperation, given), context), code: null };
    } catch (error) {
      return failedBy(error, context, log);
    }
  };

/**
 * The arguments of a tool call as the operation's input.
 * @throws ServiceError invalid_request, with the message of REST
 */
export const toolInput = ({ input, mcpOmit = [] }: McpOperation, given: Record<string, unknown>): unknown => {
  const known = Object.keys(input.shape).filter((name) => !mcpOmit.includes(name));
  const extra = mcpOmit.filter((name) => (given[name] ?? null) !== null);
  return checkedInput(input, given, { known, extra });
};

/** The answer to a call that threw. Errors of a call whose caller has disconnected are not logged. */
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
