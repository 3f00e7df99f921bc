import { once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { loadBridgeSettings } from "../../config/bridge-settings.ts";
import { startBridge } from "../../main/bridge.ts";
import { version } from "../../main/version.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { catchInterruption } from "../interruption.ts";
import { print } from "../print.ts";

/** `bridge serve`: runs until a signal stops it, or on stdio until its client leaves. */
export const serve = async (): Promise<ExitCode> => {
  const loaded = loadBridgeSettings(process.env);
  using stop = catchInterruption({ hangup: true });
  // V8 would collect garbage every two minutes in a service at rest, which costs more than all that it does.
  setFlagsFromString("--no-memory-reducer");
  const service = await startBridge({ ...loaded, env: process.env }, stop.signal).catch((error: unknown) => {
    if (stop.signal.aborted) return null;
    throw error;
  });
  if (service === null) return exitCode.ok;
  // On stdio, stdout belongs to the protocol.
  if (service.url !== null) print(`bridge ${version} listening on ${service.url}`);
  const ending = AbortSignal.any([stop.signal, service.clientLeft]);
  if (!ending.aborted) await once(ending, "abort");
  await service.stop();
  return exitCode.ok;
};
