import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { instanceTable } from "../text/instance-table.ts";
import { painter } from "../text/paint.ts";
import { queueLines } from "../text/queue-lines.ts";
import { wrap } from "../text/width.ts";

/** `svc instances` */
export const instances = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.list_instances();
  if (json === true) {
    printJson(body);
    return exitCode.ok;
  }
  const paint = painter(process.stdout);
  const columns = terminalColumns();
  if (body.instances.length > 0) print(instanceTable(body.instances, { paint, columns, now: Date.now() }));
  const lines = queueLines(body).flatMap((line) => wrap(line, columns ?? Infinity));
  print(lines.map((line) => paint("dim", line)).join("\n"));
  return exitCode.ok;
};
