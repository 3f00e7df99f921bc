import { loadSettings } from "../../config/settings.ts";
import { serviceName, version } from "../../main/version.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { CliError } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { note, print } from "../print.ts";

import { listenFailure } from "./listen-failure.ts";

export type ServeOptions = { host?: string; port?: number };

/** `svc serve`: runs until it is told to stop. */
export const serve = async ({ host, port }: ServeOptions): Promise<ExitCode> => {
  const loaded = loadSettings({
    env: {
      ...process.env,
      ...(host !== undefined && { SERVICE_HOST: host }),
      ...(port !== undefined && { SERVICE_PORT: String(port) }),
    },
  });
  using stop = catchInterruption();
  const { startOrchestrator } = await import("../../main/orchestrator.ts");
  const service = await startOrchestrator({ ...loaded, env: process.env }).catch((error: unknown) => {
    throw listenFailure(error, loaded.settings) ?? error;
  });
  print(`${serviceName} ${version} listening on ${service.url}`);
  if (!stop.signal.aborted) {
    await new Promise((resolve) => stop.signal.addEventListener("abort", resolve, { once: true }));
  }
  await service.stop().catch((error: unknown) => {
    throw new CliError(
      `The service did not stop cleanly: ${error instanceof Error ? error.message : String(error)}`,
      {
        cause: error,
      },
    );
  });
  endAnyway();
  return exitCode.ok;
};

/** Everything has been stopped: what still keeps the process alive is a fault that must not look like a hang. */
const endAnyway = (): void => {
  setTimeout(() => {
    note("svc: something kept the process from ending after the service had stopped");
    process.exit(exitCode.failure);
  }, 5000).unref();
};
