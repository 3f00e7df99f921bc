import { createHash } from "node:crypto";
import { ServiceError } from "../contract/errors.ts";
import type { RunTaskInput } from "../contract/job.ts";
import type { JobRecord } from "../store/job-record.ts";

/**
 * Digests of an `Idempotency-Key`, scoped by caller, and of its request; null without a key.
 * @throws ServiceError `invalid_request`
 */
export const idempotencyOf = (
  key: string | undefined,
  principal: string,
  input: RunTaskInput,
): JobRecord["idempotency"] => {
  if (key === undefined) return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw new ServiceError(
      "invalid_request",
      "Idempotency-Key: must be 1 to 255 printable ASCII characters without spaces",
    );
  }
  // `wait` does not change what is asked for.
  const { wait: _wait, ...body } = input;
  return { key: digest(`${principal}\0${key}`), body: digest(JSON.stringify(body)) };
};

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");
