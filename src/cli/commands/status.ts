import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson } from "../print.ts";
import { factLines } from "../text/job-facts.ts";
import { painter } from "../text/paint.ts";
import { oneLine } from "../text/sanitise.ts";

/** `svc status` */
export const status = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client, baseUrl } = connect();
  const health = await client.health({ signal: AbortSignal.timeout(10_000) });
  if (json === true) printJson(health);
  else {
    const paint = painter(process.stdout);
    const facts = factLines(
      [
        ["Status", paint("green", oneLine(health.status))],
        ["Service", oneLine(health.service)],
        ["Address", baseUrl],
      ],
      { paint },
    );
    print(facts.join("\n"));
  }
  return exitCode.ok;
};
