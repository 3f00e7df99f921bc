import { isOffered, type Handlers, type Operation, type RequestContext } from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { agentModeOff } from "./agent-mode-off.ts";
import { inputReader } from "./input.ts";
import { json } from "./reply.ts";
import type { Call, Route } from "./route.ts";

type Name = keyof Operations;

/** Every operation of the registry as a route; one whose part of the service is off says so. */
export const operationRoutes = (handlers: Handlers<Operations>, parts: { agent: boolean }): Route[] =>
  (Object.keys(operations) as Name[]).map((name) =>
    isOffered(operations[name], parts) ? operationRoute(name, handlers) : absentRoute(operations[name]),
  );

const absentRoute = ({ http: { method, path } }: Operation): Route => ({
  method,
  path,
  refusing: true,
  handle: () => {
    throw agentModeOff(`${method.toUpperCase()} ${path}`);
  },
});

const operationRoute = (name: Name, handlers: Handlers<Operations>): Route => {
  const operation: Operation = operations[name];
  const { method, path, status = () => 200 } = operation.http;
  const read = inputReader(operation);
  // The registry ties input and handler together by name; the compiler cannot follow that through a loop.
  const handle = handlers[name] as unknown as (
    input: unknown,
    context: RequestContext,
  ) => Promise<Record<string, unknown>>;
  return {
    method,
    path,
    handle: async (call) => {
      const input = await read(call);
      const output = await handle(input, contextOf(call, operation.annotations.idempotent));
      return json(status(output), output);
    },
  };
};

const contextOf = ({ request, principal }: Call, idempotent: boolean): RequestContext => ({
  signal: request.signal,
  principal,
  // Asking an idempotent operation twice is harmless anyway: the header has no meaning there.
  idempotencyKey: idempotent ? undefined : request.headers.get("idempotency-key") || undefined,
});
