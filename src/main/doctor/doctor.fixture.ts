import { loadSettings } from "../../config/settings.ts";
import { secretValues } from "../../config/secrets.ts";
import { createRedactor } from "../../lib/redact.ts";
import { newestCli } from "../../../test/agent-clis.ts";
import { temporaryDirectory } from "../../../test/temporary.ts";
import type { Diagnosis } from "./diagnosis.ts";

/** What `svc doctor` would be given with these variables. */
export const diagnosisWith = async (
  variables: Record<string, string>,
  more: Partial<Diagnosis> = {},
): Promise<Diagnosis> => {
  const env = {
    PATH: process.env["PATH"],
    HOME: await temporaryDirectory(),
    SERVICE_AGENT_SANDBOX: "off",
    SERVICE_AGENT_CLI_BINARY: newestCli,
    ...variables,
  };
  const { settings } = loadSettings({ env });
  const redact = createRedactor(secretValues(settings, env));
  return {
    settings,
    env,
    redact,
    signal: new AbortController().signal,
    offline: false,
    askModel: false,
    ...more,
  };
};

/** What a check says: `ok: …`, or the name of its error. */
export const said = (check: Promise<string>): Promise<string> =>
  check.then(
    (message) => `ok: ${message}`,
    (error: Error) => `${error.constructor.name}: ${error.message}`,
  );
