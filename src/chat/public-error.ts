import type { ServiceError } from "../contract/errors.ts";

/** An error as chat completions clients know it. */
export type PublicError = { message: string; type: string; param: string | null; code: string | null };

/** @param param name of the request's field that is at fault */
export const publicError = (
  { status, code, message }: ServiceError,
  param: string | null = null,
): PublicError => ({
  message,
  type: types[status] ?? (status >= 500 ? "server_error" : "invalid_request_error"),
  param,
  code,
});

const types: Partial<Record<number, string>> = {
  401: "authentication_error",
  403: "permission_error",
  429: "rate_limit_error",
};
