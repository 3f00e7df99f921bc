import { writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A file in which each fake agent notes that it was given work, and the settings with which it can, also in a sandbox. */
export const agentJournal = async (directory: string) => {
  const path = join(directory, "agents.ndjson");
  await writeFile(path, "", { flag: "a" });
  const env = {
    FAKE_AGENT_LOG: path,
    SERVICE_AGENT_ENV: "FAKE_AGENT_LOG",
    SERVICE_AGENT_SANDBOX_WRITE: path,
    SERVICE_LOG_LEVEL: "warn",
  };
  return { path, env };
};
