import { ServiceError } from "../contract/errors.ts";
import { isWrongType } from "./reason.ts";

/**
 * What a failure of the store is of: of one `value` that is not what it should be, which says nothing of the others; of
 * something that the store refuses at present though it answers; or of a store that is `away`.
 */
export type Failure = "value" | "refused" | "away";

export const failureOf = (error: unknown): Failure => {
  if (error instanceof ServiceError && error.code === "store_unavailable") {
    const { cause } = error;
    // A store of files: what it cannot do it may do in a moment.
    if (!(cause instanceof Error)) return "away";
    if (isWrongType(cause.message)) return "value";
    return cause.name === "ReplyError" ? "refused" : "away";
  }
  return "value";
};
