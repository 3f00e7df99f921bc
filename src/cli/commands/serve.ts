import { once } from "node:events";
import { loadSettings, type LoadedSettings } from "../../config/settings.ts";
import { serviceTitle } from "../../lib/process/marker.ts";
import { serviceName, version } from "../../main/version.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { layoutOf, note, print } from "../print.ts";

export type ServeOptions = { host?: string; port?: number };

/** `svc serve`: runs until a signal stops it. */
export const serve = async ({ host, port }: ServeOptions): Promise<ExitCode> => {
  const loaded = loadSettings({
    env: {
      ...process.env,
      ...(host !== undefined && { SERVICE_HOST: host }),
      ...(port !== undefined && { SERVICE_PORT: String(port) }),
    },
  });
  process.title = serviceTitle;
  using stop = catchInterruption({ hangup: true, patient: true });
  const service = await start({ ...loaded, env: process.env }, stop.signal).catch((error: unknown) => {
    if (stop.signal.aborted && isAbort(error)) return null;
    throw error;
  });
  // Stopped while it waited to start.
  if (service === null) return exitCode.ok;
  // On stdio, stdout belongs to the protocol.
  if (service.url !== null) {
    print(`${serviceName} ${version} listening on ${service.url}`);
    if (process.stdout.isTTY) {
      const { startPage } = await import("../text/start-page.ts");
      print(startPage(loaded.settings, service.url, layoutOf(process.stdout)));
    }
  }
  const ending = AbortSignal.any([stop.signal, service.mustEnd]);
  if (!ending.aborted) await once(ending, "abort");
  // Ctrl-C, or the end of a stdio client, must not wait for a drain.
  const { drainTimeout, transport } = loaded.settings;
  const drainSeconds = stop.signalName() === "SIGTERM" && transport !== "stdio" ? drainTimeout : 0;
  await service.stop({ drainSeconds, hurry: stop.secondSignal });
  if (!(service.mustEnd.reason instanceof Error) || service.mustEnd.reason.name === "AbortError")
    return exitCode.ok;
  note(`svc: ${service.mustEnd.reason.message}`);
  return exitCode.failure;
};

/** Each import is a good part of the program: only the one that runs is loaded. */
const start = async (asked: LoadedSettings & { env: NodeJS.ProcessEnv }, signal: AbortSignal) => {
  if (asked.settings.transport === "stdio") {
    const { startStdio } = await import("../../main/stdio.ts");
    return await startStdio(asked, signal);
  }
  const { startOrchestrator } = await import("../../main/orchestrator.ts");
  return await startOrchestrator(asked);
};

const isAbort = (error: unknown): boolean => error instanceof Error && error.name === "AbortError";
