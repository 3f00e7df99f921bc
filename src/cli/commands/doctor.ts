import { loadSettings } from "../../config/settings.ts";
import { type Check, readinessText } from "../../contract/instance.ts";
import { diagnose } from "../../main/doctor.ts";
import { connect } from "../connect.ts";
import { exitCode, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { printAnswer } from "../print.ts";
import { factLines } from "../../view/columns.ts";
import { checkFact } from "../../view/service.ts";

export type DoctorOptions = {
  offline?: boolean;
  askModel?: string | true;
  json?: boolean;
};

/** `svc doctor`: exit 1 when there is a fault. */
export const doctor = async (options: DoctorOptions): Promise<ExitCode> => {
  const { offline = false, askModel = false, json } = options;
  const { settings, warnings } = loadSettings({ env: process.env });
  return await interruptible(async (signal) => {
    const request = { settings, env: process.env, signal, offline, askModel };
    const found = await Promise.all([diagnose(request), service()]);
    const checks: Check[] = [
      ...warnings.map((message) => ({ name: "settings", status: "warning" as const, message })),
      ...found.flat(),
    ];
    const healthy = checks.every(({ status }) => status !== "fault");
    printAnswer({ success: true, healthy, checks }, json, (_, layout) =>
      factLines(
        checks.map((check) => checkFact(check, layout.paint)),
        layout,
      ).join("\n"),
    );
    return healthy ? exitCode.ok : exitCode.failure;
  });
};

const service = async (): Promise<Check> => {
  const look = async (): Promise<[ready: boolean, message: string]> => {
    const { client, baseUrl } = connect();
    const readiness = await client.ready({ signal: AbortSignal.timeout(10_000) });
    return [readiness.ready, `${readinessText(readiness)} (${baseUrl})`];
  };
  const [ready, message] = await look().catch((error: unknown): [boolean, string] => [
    false,
    messageOf(error),
  ]);
  return { name: "service", status: ready ? "ok" : "warning", message };
};

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
