/** How a submission was answered. `id` null: it was refused; `status` 0: the connection failed. `retryAfter` in seconds. */
export type Answer = {
  id: string | null;
  status: number;
  code: string | null;
  retryAfter: number | null;
  ms: number;
};

type Submission = { task: string; repo_url?: string; profile?: string; worktree_id?: string };

/** Submits once and never again, so that what the service itself answers is seen. */
export const submitOnce = async (url: string, body: Submission, key?: string): Promise<Answer> => {
  const began = performance.now();
  try {
    const response = await fetch(`${url}/jobs`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(key !== undefined && { "idempotency-key": key }),
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    const answer = (await response.json()) as { job?: { id: string }; code?: string };
    const after = response.headers.get("retry-after");
    return {
      id: answer.job?.id ?? null,
      status: response.status,
      code: answer.code ?? null,
      retryAfter: after === null ? null : Number(after),
      ms: performance.now() - began,
    };
  } catch {
    return { id: null, status: 0, code: null, retryAfter: null, ms: performance.now() - began };
  }
};
