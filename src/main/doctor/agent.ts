import { locateCli } from "../../agents/claude/locate.ts";
import {
  askVersion,
  capabilitiesOf,
  isTested,
  newestVersion,
  supportedText,
} from "../../agents/claude/version.ts";
import type { Diagnosis } from "./diagnosis.ts";
import { tryTurn } from "./turn.ts";

/** @throws Error when no job can run with this agent CLI */
export const checkAgent = async (request: Diagnosis, limitSeconds = 60): Promise<string> => {
  const { settings, env, offline } = request;
  const command = await locateCli(settings.agentCliBinary, env["PATH"]);
  const { version, text, path } = await askVersion(command, { PATH: env["PATH"] ?? "" });
  const wayOut = `Install a version from ${supportedText}, or point SERVICE_AGENT_CLI_BINARY at one`;
  if (path === null) throw new Error(`${text} Every job will fail. ${wayOut}`);
  if (version === null) throw new Error(`${path} does not tell its version: ${text}. ${wayOut}`);
  const cli = `${version} (${path})`;
  if (!capabilitiesOf(version).supported) throw new Error(`${cli} is too old. ${wayOut}`);
  const named = isTested(version) ? cli : `${cli}, newer than ${newestVersion}, tried as that`;
  if (offline) return named;
  const trial = { ...request, askModel: false, limitSeconds };
  const { mode, seconds } = await tryTurn(trial).catch((error: unknown) => {
    const said = error instanceof Error ? error.message : String(error);
    throw new Error(`${named}: ${said.replace(/\.$/, "")}. svc works with ${supportedText}`);
  });
  return `${named}, one turn ${places[mode]} in ${seconds.toFixed(1)} s`;
};

const places = { bwrap: "in bubblewrap", landlock: "in Landlock", off: "without a sandbox" };
