/** A refusal of the stand-in, worded as the real host words it. REST and GraphQL render it each in their own way. */
export class HostError extends Error {
  override name = "HostError";
  readonly status: number;
  /** Seconds sent as Retry-After. */
  readonly retryAfter: number | undefined;

  constructor(status: number, message: string, retryAfter?: number) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}
