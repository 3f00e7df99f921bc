import type { Handlers, RequestContext } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { inputReader } from "./input.ts";
import { json } from "./reply.ts";
import type { Call, Route } from "./route.ts";

type Name = keyof Operations;

/** Every operation of the registry as a route. */
export const operationRoutes = (handlers: Handlers<Operations>): Route[] =>
  (Object.keys(operations) as Name[]).map((name) => operationRoute(name, handlers));

const operationRoute = (name: Name, handlers: Handlers<Operations>): Route => {
  const operation = operations[name];
  const read = inputReader(operation);
  // The registry ties input and handler together by name; the compiler cannot follow that through a loop.
  const handle = handlers[name] as (input: unknown, context: RequestContext) => Promise<unknown>;
  return {
    ...operation.http,
    handle: async (call) => {
      const input = await read(call);
      return json(200, await handle(input, contextOf(call, operation.annotations.idempotent)));
    },
  };
};

const contextOf = ({ request, principal }: Call, idempotent: boolean): RequestContext => ({
  signal: request.signal,
  principal,
  // Asking an idempotent operation twice is harmless anyway: the header has no meaning there.
  idempotencyKey: idempotent ? undefined : request.headers.get("idempotency-key") || undefined,
});
