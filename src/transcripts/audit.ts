import type { Definitions, Handlers, RequestContext } from "../contract/operation.ts";
import type { Log } from "../lib/log.ts";

/** Who read how much of what: without content. */
const auditLine = (
  tool: string,
  { principal }: Pick<RequestContext, "principal">,
  { given, answer }: { given: Record<string, unknown>; answer: Record<string, unknown> },
) => ({
  principal,
  tool,
  ...Object.fromEntries(
    Object.entries(given).flatMap(([name, value]) =>
      subjects.includes(name) && typeof value === "string" && value !== ""
        ? [[name, value.slice(0, 200)]]
        : [],
    ),
  ),
  count: answer["count"] ?? answer["entry_count"] ?? 1,
});

const subjects = ["session_id", "resume_session_id", "project", "filename", "codename", "job_id", "uri"];

/** The same handlers, which log each answer. */
export const audited = <Ops extends Definitions>(
  operations: Ops,
  handlers: Handlers<Ops>,
  log: Log,
): Handlers<Ops> => {
  type Handle = (given: Record<string, unknown>, context: RequestContext) => Promise<Record<string, unknown>>;
  const entries = Object.keys(operations).map((name): [string, Handle] => {
    // Input and handler fit each other by name, which the compiler cannot see in a lookup.
    const handle = handlers[name as keyof Ops] as unknown as Handle;
    return [
      name,
      async (given, context) => {
        const answer = await handle(given, context);
        log.info(auditLine(name, context, { given, answer }), "read");
        return answer;
      },
    ];
  });
  return Object.fromEntries(entries) as unknown as Handlers<Ops>;
};
