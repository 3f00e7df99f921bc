import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { loadSettings } from "../src/config/settings.ts";
import { startOrchestrator } from "../src/main/orchestrator.ts";

/** Many whole services in one process: `fleet-host.ts FIRST COUNT DIRECTORY`, with the variables that all share. */
const [first, count, directory = ""] = process.argv.slice(2);
const urls: (string | null)[] = [];
for (let n = Number(first); n < Number(first) + Number(count); n += 1) {
  const own = join(directory, `i${n}`);
  await mkdir(own, { recursive: true });
  const env = {
    ...process.env,
    SERVICE_POD_NAME: `i${n}`,
    SERVICE_PORT: "0",
    SERVICE_JOBS_DIR: join(own, "jobs"),
    SERVICE_WORKTREE_ROOT: join(own, "worktrees"),
    SERVICE_REPOS_ROOT: join(own, "repos"),
  };
  const { settings, warnings } = loadSettings({ env, home: own });
  urls.push((await startOrchestrator({ settings, warnings, env })).url);
}
process.stdout.write(`${urls[0]}\n`);
