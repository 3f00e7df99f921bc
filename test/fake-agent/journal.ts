import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

/**
 * A file in which each fake agent notes that it was given work, a directory in which files tell agents to go on, and the
 * settings with which they reach both, also in a sandbox.
 */
export const agentJournal = async (directory: string) => {
  const path = join(directory, "agents.ndjson");
  const controls = join(directory, "controls");
  await writeFile(path, "", { flag: "a" });
  await mkdir(controls, { recursive: true });
  const env = {
    FAKE_AGENT_LOG: path,
    SERVICE_AGENT_ENV: "FAKE_AGENT_LOG",
    SERVICE_AGENT_SANDBOX_READ: controls,
    SERVICE_AGENT_SANDBOX_WRITE: path,
    SERVICE_LOG_LEVEL: "warn",
  };
  return { path, controls, env };
};
