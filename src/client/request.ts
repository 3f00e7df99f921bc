import { statusOf } from "../contract/errors.ts";
import type { Operation } from "../contract/operation.ts";
import { ClientError } from "./client-error.ts";
import type { Ask } from "./transport.ts";

/** The request that asks `operation` with `input`: path parameters in the path, the rest in the query or the JSON body. */
export const requestOf = (operation: Operation, input: Record<string, unknown>): Ask => {
  const { method, path } = operation.http;
  const inPath = new Set<string>();
  const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    inPath.add(name);
    return segment(operation, name, input[name]);
  });
  const rest = Object.entries(input).filter(([name, value]) => !inPath.has(name) && value !== undefined);
  if (method === "post") {
    return {
      method: "POST",
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

/** These would change the path instead of being a part of it; no id looks like them. */
const unaskable = ["", ".", ".."];

const segment = (operation: Operation, name: string, value: unknown): string => {
  const text = textOf(value ?? "");
  if (unaskable.includes(text)) {
    const code = operation.errors.find((each) => statusOf[each] === 404) ?? "not_found";
    throw new ClientError(`${name}: ${JSON.stringify(text)} names nothing`, { status: 404, code });
  }
  return encodeURIComponent(text.toWellFormed());
};

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
