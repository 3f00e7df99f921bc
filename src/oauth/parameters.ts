import { readBytes } from "../http/body.ts";
import { OAuthError } from "./oauth-error.ts";

/** Parameters of a request, of which each comes once. Only `resource` may be repeated. */
export type Parameters = { get: (name: string) => string | undefined; resources: readonly string[] };

/** @throws OAuthError invalid_request when a parameter is repeated: readers could disagree on which one is valid */
export const parametersOf = (given: URLSearchParams): Parameters => {
  for (const name of new Set(given.keys()))
    if (name !== "resource" && given.getAll(name).length > 1)
      throw new OAuthError("invalid_request", `${name.slice(0, 50)} is given more than once`);
  return { get: (name) => given.get(name) || undefined, resources: given.getAll("resource") };
};

const maxBytes = 32_768;

/** @throws OAuthError, ServiceError */
export const readForm = async (request: Request): Promise<Parameters> => {
  const [type = ""] = (request.headers.get("content-type") ?? "").toLowerCase().split(";");
  if (type.trim() !== "application/x-www-form-urlencoded")
    throw new OAuthError("invalid_request", "Send a form, as application/x-www-form-urlencoded");
  return parametersOf(new URLSearchParams(Buffer.from(await readBytes(request, maxBytes)).toString()));
};

export const required = (parameters: Parameters, name: string): string => {
  const value = parameters.get(name);
  if (value === undefined) throw new OAuthError("invalid_request", `${name} is missing`);
  return value;
};
