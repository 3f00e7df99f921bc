import type { ZodOpenApiOperationObject } from "zod-openapi";
import type { ServiceError } from "../contract/errors.ts";
import type { Reply } from "./reply.ts";

/** One request on its way to a handler, behind the checks of the boundary. */
export type Call = {
  request: Request;
  /** Decoded path parameters. */
  path: Record<string, string>;
  /** Digest of the caller's key; `open` when no keys are set; see also `stranger`. */
  principal: string;
  /** What the log calls this request. */
  requestId: string;
  /** Adds to what the log says of this request. */
  note: (more: Record<string, unknown>) => void;
  /** Cuts the connection, whatever has been sent of the answer. */
  cut: () => void;
};

export type Route = {
  method: "get" | "post" | "delete" | "options";
  /** With parameters in braces, as in the contract: `/jobs/{job_id}`. */
  path: string;
  /** Answers without a key. */
  open?: boolean;
  /** Pages of other origins may read its answers, as far as the source check lets them ask. */
  crossOrigin?: boolean;
  /** Only refuses, in words of its own: the path does not answer to this method. */
  refusing?: boolean;
  /** The answer to a failure here and at every path from `under` on that nothing answers to; absent: as the contract says. */
  failures?: { under: string; reply: (error: ServiceError) => Reply };
  /** What the OpenAPI document says of it, for a route that is no operation of the contract. */
  openapi?: ZodOpenApiOperationObject;
  /** A `Response` comes from a library that makes its own; the boundary adds to it what every answer carries. */
  handle: (call: Call) => Reply | Response | Promise<Reply | Response>;
};

/** `path` in the router's notation. */
export const routerPath = (path: string): string => path.replaceAll(/\{(\w+)\}/g, ":$1");

/** Names of the parameters in `path`, in their order. */
export const pathParameters = (path: string): string[] =>
  [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");

/** The methods that `path` answers to, for the `Allow` header; empty: there is nothing at this path. */
export const methodsAt = (routes: readonly Route[], path: string): string[] => {
  const methods = routes
    .filter((route) => route.refusing !== true && patternOf(route.path).test(path))
    .map(({ method }) => method.toUpperCase());
  return methods.includes("GET") ? [...methods, "HEAD"] : methods;
};

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll(".", "\\.").replaceAll(/\{\w+\}/g, "[^/]+")}$`);
