import { z } from "zod";
import type { ZodOpenApiResponseObject, ZodOpenApiResponsesObject } from "zod-openapi";
import { Failure, statusOf, unauthorizedBody, type ErrorCode } from "../contract/errors.ts";

/** What any request can fail with, wherever it goes. */
export const always: readonly ErrorCode[] = [
  "invalid_request",
  "forbidden_host",
  "forbidden_origin",
  "internal",
  "store_unavailable",
  "starting",
];

/** The failures of an operation by status; the body says which of the codes that share a status it is. */
export const errorResponses = (codes: readonly ErrorCode[]): ZodOpenApiResponsesObject => {
  const byStatus = Object.groupBy([...new Set([...codes, ...always])], (code) => statusOf[code]);
  const responses = Object.entries(byStatus).map(
    ([status, group]) => [status, failure(status, group)] as const,
  );
  return { ...Object.fromEntries(responses), "401": unauthorized };
};

const failure = (status: string, codes: readonly ErrorCode[]): ZodOpenApiResponseObject => ({
  description: `${statusTitles[status] ?? "Failed"}: ${codes.join(", ")}`,
  ...(status === "503" && { headers: z.object({ "Retry-After": retryAfter }) }),
  content: {
    "application/json": { schema: Failure.extend({ code: z.enum(codes) }).meta({ id: undefined }) },
  },
});

const retryAfter = z.int().meta({ description: "Seconds after which asking again makes sense" });

export const unauthorized: ZodOpenApiResponseObject = {
  description: "No key, or not a valid one",
  content: {
    "application/json": {
      schema: z.object({ error: z.literal(unauthorizedBody.error) }),
      example: unauthorizedBody,
    },
  },
};

export const statusTitles: Record<string, string> = {
  "400": "The request is not valid",
  "403": "The request comes from elsewhere",
  "404": "There is no such thing",
  "409": "In conflict with an earlier request",
  "413": "Too large",
  "429": "The model's endpoint takes no more for now",
  "500": "The service failed; its log tells more under the X-Request-Id of the answer",
  "502": "The model's endpoint refused or failed",
  "503": "Not now",
  "504": "It took too long",
};
