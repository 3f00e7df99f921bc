import { join } from "node:path";
import { findExecutable } from "../../lib/process/executable.ts";
import { askVersion, capabilitiesOf } from "./version.ts";

/** Where `npm run install-user` puts the agent CLI: in the `node_modules` that this program is in. */
const installed = join(import.meta.dirname, "..", "..", "@anthropic-ai", "claude-code", "bin", "claude.exe");

/**
 * The program to start as the agent CLI, asked before each start:
 *
 * | SERVICE_AGENT_CLI_BINARY | `claude` on PATH | installed with svc | |
 * |---|---|---|---|
 * | another than `claude` | | | what it names |
 * | `claude`, its default | of a supported version | | the one on PATH |
 * | | missing, too old, or tells no version | yes | the one installed with svc |
 * | | | no | the one on PATH; its version, or absence, is told then |
 *
 * @param path a PATH variable
 */
export const locateCli = async (command: string, path = "", beside = installed): Promise<string> => {
  if (command !== "claude" || !(await findExecutable(beside, "")).ok) return command;
  const { version } = await askVersion(command, { PATH: path });
  return capabilitiesOf(version).supported ? command : beside;
};
