import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { bridge, recordedHome } from "./run-bridge.ts";

const job = "7c1f3c1e-0b44-4a3c-8a1e-6a5f6d8c2f11";

test("the jobs of the service are there without a setting, under their repository, and open by a short id", async () => {
  const home = await recordedHome();
  const directory = join(home, ".service", "projects", "-worktree");
  await mkdir(directory, { recursive: true });
  const message = { role: "user", content: "Count the flamingos" };
  const line = { type: "user", uuid: "u", cwd: "/home/ana/.service/worktrees/1", message };
  await writeFile(join(directory, `${job}.jsonl`), `${JSON.stringify(line)}\n`);
  const origin = {
    session_id: job,
    kind: "job",
    job_id: "j",
    repo_url: "https://github.com/acme/app",
    at: "2026-03-02T00:00:00Z",
  };
  await writeFile(join(home, ".service", "origins.jsonl"), `${JSON.stringify(origin)}\n`);
  const { stdout } = await bridge(home, ["sessions", "--project", "acme/app"]);
  expect(stdout).toMatch(/\n7c1f3c1e .* acme\/app +Count the flamingos\n/);
  const { stdout: json } = await bridge(home, ["show", "7c1f3c1e", "--json"]);
  expect(JSON.parse(json)).toMatchObject({
    meta: { session_id: job, project_path: "https://github.com/acme/app" },
  });
  const ambiguous = await bridge(home, ["show", "00000000"]);
  expect(ambiguous).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/00000000 begins several ids: 0{8}-/),
  });

  // Advice names commands of bridge, and the orchestrator is where SERVICE_PORT says.
  const unknown = await bridge(home, ["show", "nothing"]);
  expect(unknown.stderr).toContain(
    'There is no session "nothing"; bridge sessions and bridge search show the ids',
  );
  const { stdout: status } = await bridge(home, ["status"], {
    SERVICE_PORT: "8300",
    CLAUDE_CONFIG_DIR: join(home, ".claude"),
  });
  expect(status).toMatch(/Orchestrator +http:\/\/127\.0\.0\.1:8300/);
  expect(status).toContain(join(home, ".service"));
});
