import {
  INVALID_PARAMS,
  specTypeSchemas,
  type JSONRPCErrorResponse,
  type JSONRPCRequest,
} from "@modelcontextprotocol/server";
import { isObject } from "./message.ts";

/** The answer to `params` that break the protocol; null: they do not. The SDK would answer with a dump of its schema. */
export const paramsFault = ({ id, method, params }: JSONRPCRequest): JSONRPCErrorResponse | null => {
  const fault =
    method === "tools/call" ? callFault(params) : method === "initialize" ? initializeFault(params) : null;
  if (fault === null) return null;
  return { jsonrpc: "2.0", id, error: { code: INVALID_PARAMS, message: `${method}: ${fault}` } };
};

type Params = JSONRPCRequest["params"];

/** By hand: every call passes here, and a schema would double its cost. */
const callFault = (params: Params): string | null => {
  const { name, arguments: given } = params ?? {};
  if (typeof name !== "string") return `params.name must be the name of a tool, and is ${kindOf(name)}`;
  if (given !== undefined && !isObject(given))
    return `params.arguments must be an object, or be left out when there are none, and is ${kindOf(given)}`;
  return null;
};

const initializeFault = (params: Params): string | null => {
  const checked = specTypeSchemas.InitializeRequestParams["~standard"].validate(params ?? {});
  // The type allows asynchronous schemas; this one is not.
  if (!("issues" in checked) || checked.issues === undefined) return null;
  return checked.issues
    .slice(0, 5)
    .map(
      ({ path = [], message }) =>
        `${["params", ...path.map(String)].join(".")} ${message.replace(/^.*?: /, "")}`,
    )
    .join("; ");
};

const kindOf = (value: unknown): string => {
  if (value === undefined) return "missing";
  if (value === null) return "null";
  return Array.isArray(value) ? "an array" : `a ${typeof value}`;
};
