import { z } from "zod";

/** Every way a request can fail, with its HTTP status. Any other error is a bug: status 500, `internal`, logged. */
export const statusOf = {
  invalid_request: 400,
  invalid_repo_url: 400,
  invalid_ref: 400,
  ambiguous_id: 400,
  unknown_profile: 400,
  invalid_profile: 400,
  attachment_type: 400,
  unsupported_content_type: 400,
  sandbox_required: 400,
  clone_failed: 400,
  worktree_failed: 400,
  unauthorized: 401,
  forbidden_host: 403,
  forbidden_origin: 403,
  insufficient_scope: 403,
  bridge_key_refused: 403,
  not_found: 404,
  job_not_found: 404,
  change_not_found: 404,
  file_not_found: 404,
  worktree_not_found: 404,
  model_not_found: 404,
  completion_not_found: 404,
  session_not_found: 404,
  memory_not_found: 404,
  plan_not_found: 404,
  message_not_found: 404,
  secret_not_found: 404,
  method_not_allowed: 405,
  idempotency_conflict: 409,
  worktree_not_ready: 409,
  conversation_busy: 409,
  completion_running: 409,
  turn_cancelled: 409,
  not_waiting: 409,
  question_changed: 409,
  message_taken: 409,
  nothing_to_continue: 409,
  body_too_large: 413,
  budget_reached: 429,
  model_rate_limited: 429,
  internal: 500,
  agent_failed: 500,
  agent_crashed: 500,
  agent_not_found: 500,
  max_turns_reached: 500,
  max_budget_reached: 500,
  model_failed: 502,
  model_credentials: 502,
  orchestrator_unavailable: 502,
  bridge_unavailable: 502,
  no_model_credential: 503,
  draining: 503,
  starting: 503,
  queue_full: 503,
  capacity_full: 503,
  disk_full: 503,
  repo_unavailable: 503,
  store_unavailable: 503,
  secrets_unavailable: 503,
  turn_timeout: 504,
  agent_stalled: 504,
} as const;

export type ErrorCode = keyof typeof statusOf;

type Options = {
  cause?: unknown;
  /** Seconds to wait before the next try; sent as `Retry-After` with every 429 and 503. */
  retryAfter?: number;
  /** Scopes that would do, separated by spaces; sent in `WWW-Authenticate`. */
  scope?: string;
};

/** The error of all domain folders. `message` is a sentence that tells the caller what to do. */
export class ServiceError extends Error {
  override name = "ServiceError";
  readonly code: ErrorCode;
  readonly retryAfter: number | undefined;
  readonly scope: string | undefined;

  constructor(code: ErrorCode, message: string, { cause, retryAfter, scope }: Options = {}) {
    super(message, { cause });
    this.code = code;
    this.retryAfter = retryAfter;
    this.scope = scope;
  }

  get status(): number {
    return statusOf[this.code];
  }
}

/** Body of every failure but 401, whose body is `unauthorizedBody`. */
export const Failure = z
  .object({
    success: z.literal(false),
    error: z.string().describe("A sentence that says what is wrong and what to do"),
    code: z.string().describe("Stable identifier of the failure, snake_case"),
  })
  .meta({ id: "Failure" });

export type Failure = z.infer<typeof Failure>;

export const unauthorizedBody = { error: "Invalid or missing API key" } as const;
