import type { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import {
  hasBody,
  isOffered,
  type Handlers,
  type Operation,
  type RequestContext,
} from "../contract/operation.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { isMultipart, readAttached, readJsonObject } from "./body.ts";
import { checkedInput } from "./faults.ts";
import { readQuery } from "./query.ts";
import { agentModeOff, json, pathParameters, type Call, type Route } from "./route.ts";

type Name = keyof Operations;

/** A route for every operation of the registry. An operation whose part of the service is off answers with that. */
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
  // Input and handler fit each other by name, which the compiler cannot see in a loop.
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
  // Repeating an idempotent operation is harmless: it needs no key.
  idempotencyKey: idempotent ? undefined : request.headers.get("idempotency-key") || undefined,
});

/** Makes the function that reads an operation's input: path parameters from the path, the rest from the body or query. */
export const inputReader = <Input extends z.ZodObject>(operation: Operation<Input>) => {
  const { http, input } = operation;
  const inPath = pathParameters(http.path);
  const known = Object.keys(input.shape).filter((name) => !inPath.includes(name));
  const fromBody = hasBody(operation);

  return async ({ request, path }: Pick<Call, "request" | "path">): Promise<z.output<Input>> => {
    const query = readQuery(request.url);
    let given: Record<string, unknown>;
    if (fromBody) {
      if (query.size > 0) throw misplacedNames([...query.keys()]);
      const isAttached = http.attach === true && isMultipart(request);
      given = await (isAttached ? readAttached : readJsonObject)(request);
    } else {
      given = Object.fromEntries(query);
      if (bringsBody(request)) given = { ...given, ...(await alsoInBody(request, http, given)) };
    }
    const extra = inPath.filter((name) => (given[name] ?? null) !== null);
    return checkedInput(input, { ...given, ...path }, { known, extra });
  };
};

const bringsBody = ({ headers }: Request): boolean =>
  headers.has("transfer-encoding") || !["0", null].includes(headers.get("content-length"));

/** A post that takes its parameters from the query takes them from a JSON body too; what else has a body is refused. */
const alsoInBody = async (
  request: Request,
  { method, path }: Operation["http"],
  given: Record<string, unknown>,
): Promise<Record<string, unknown>> => {
  if (method !== "post") {
    const what = `${method.toUpperCase()} ${path} takes no body`;
    throw new ServiceError("invalid_request", `${what}; send what it needs in the address`);
  }
  const body = await readJsonObject(request);
  const twice = Object.keys(body).filter((name) => name in given);
  if (twice.length === 0) return body;
  throw new ServiceError("invalid_request", `${twice.join(", ")}: is given in the address and in the body`);
};

const misplacedNames = (names: string[]): ServiceError =>
  new ServiceError("invalid_request", `${names.join(", ")}: belongs in the JSON body, not in the address`);
