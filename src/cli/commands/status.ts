import { ClientError } from "../../client/client-error.ts";
import { connect } from "../connect.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { note, printAnswer } from "../print.ts";
import { factLines, type Fact } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";
import { queueLines, readinessFacts } from "../../view/service.ts";

/** `svc status`: exit 1 when new jobs are refused. */
export const status = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client, baseUrl } = connect();
  const signal = AbortSignal.timeout(10_000);
  const [health, readiness] = await Promise.all([client.health({ signal }), client.ready({ signal })]);
  const overview = await client.list_instances({}, { signal }).catch((error: unknown) => {
    // Without a key, or without the store, it still says whether it takes jobs.
    if (!(error instanceof ClientError)) throw error;
    note(`svc: the queue is not shown: ${oneLine(error.message)}`);
    return null;
  });
  const { ready } = readiness;
  const body = {
    ...health,
    status: ready ? health.status : "refusing",
    ...readiness,
    queue: overview?.queue ?? null,
    instances: overview?.instances ?? null,
  };
  printAnswer(body, json, (_, layout) => {
    const { paint } = layout;
    const versions = [...new Set(overview?.instances.map(({ version }) => version))].join(", ");
    const [status = ["Status", null] as Fact, ...checks] = readinessFacts(readiness, paint);
    return factLines(
      [
        status,
        ["Service", oneLine(`${health.service} ${versions}`)],
        ["Address", baseUrl],
        ["Queue", overview === null ? null : queueLines(overview).join("\n"), "prose"],
        ...checks,
      ],
      layout,
    ).join("\n");
  });
  return ready ? exitCode.ok : exitCode.failure;
};
