import { HostError } from "./host-error.ts";

/** What to refuse: `git_read` and `push` are git's own requests, the others those of the API; `change`: of what is there. */
export type RefusedAction = "git_read" | "push" | "pull_request" | "repository" | "token" | "change" | "api";

export type Refusal = {
  what: RefusedAction;
  /**
   * A status; `timeout`: never answered; `reset`: the connection is cut; `unheard`: the same when all is done; `half`:
   * the same within the answer; `page`: a success with HTML; `hook`: pushes only, by a pre-receive hook.
   */
  how:
    | (401 | 403 | 404 | 422 | 429 | 500 | 502 | 503)
    | ("timeout" | "reset" | "unheard" | "half" | "page" | "hook");
  /** Default: the real host's words. */
  message?: string;
  /** How many requests are refused; default: all until the refusal is disposed of. */
  times?: number;
  /** Seconds in the header Retry-After; default: 1 for 429 and 503. */
  retryAfter?: number;
};

export type Refusals = {
  add: (refusal: Refusal) => Disposable;
  /** The refusal that meets this request, counted as used. One by hook meets only requests that run the hook. */
  take: (what: RefusedAction, runsHook: boolean) => TakenRefusal | null;
};

type TakenRefusal = Required<Omit<Refusal, "retryAfter">> & Pick<Refusal, "retryAfter">;

export const createRefusals = (): Refusals => {
  const active = new Set<TakenRefusal>();
  return {
    add: (refusal) => {
      const complete = { times: Infinity, message: wording(refusal), ...refusal };
      active.add(complete);
      return { [Symbol.dispose]: () => void active.delete(complete) };
    },
    take: (what, runsHook) => {
      const refusal = [...active].find(
        (candidate) => candidate.what === what && (runsHook || candidate.how !== "hook"),
      );
      if (!refusal) return null;
      refusal.times -= 1;
      if (refusal.times <= 0) active.delete(refusal);
      return refusal;
    },
  };
};

/** The error a refusal by status stands for. */
export const refusalError = ({ how, message, retryAfter = 1 }: TakenRefusal): HostError =>
  new HostError(
    typeof how === "number" ? how : 500,
    message,
    how === 429 || how === 503 ? retryAfter : undefined,
  );

const wordings: Record<string, string> = {
  "pull_request 422": "No commits between main and the branch",
  "repository 422": "Name already exists on this account",
  "push hook": "GH006: Protected branch update failed",
  "401": "Bad credentials",
  "403": "Resource not accessible by integration",
  "404": "Not Found",
  "422": "Validation Failed",
  "429": "API rate limit exceeded",
};

const wording = ({ what, how }: Refusal): string =>
  wordings[`${what} ${how}`] ?? wordings[how] ?? "Server Error";
