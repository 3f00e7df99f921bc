import { ServiceError } from "../../contract/errors.ts";

/** What every function of a file store rejects with when the directory cannot be used. */
export const storeUnavailable = (directory: string, cause: unknown): ServiceError => {
  const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new ServiceError(
    "store_unavailable",
    `The job store in ${directory} cannot be used (${code}): check free space and permissions there, then try again`,
    { cause, retryAfter: 5 },
  );
};
