import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { git, makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { until } from "../until.ts";

test.concurrent("a worktree goes when its time is over, after what was changed in it since is saved, and its branch with it", async () => {
  const service = await startService({ env: { SERVICE_WORKTREE_TTL: "3" } });
  const ask = asks(service);
  const remote = await makeRemote();
  const job = await ask.run({ task: "Do it", repo_url: remote.path });
  const path = String(job.worktree_path);
  await writeFile(join(path, "by-hand.txt"), "somebody looked around here\n");
  await until(() => !existsSync(path), { what: "the worktree to be removed" });
  const root = join(service.home, "service-repos");
  const key = (await readdir(root)).find((name) => /^[0-9a-f]{12}$/.test(name));
  const cache = join(root, String(key), "saved.git");
  expect(await git(cache, "rev-parse", `refs/heads/${job.branch}`)).toBe(job.commit_sha);
  expect(await git(cache, "show", `refs/service/salvage/${job.id}:by-hand.txt`)).toContain("looked around");
});

test.concurrent("an ended job is forgotten when its time is over: record, events, files, configuration and worktree", async () => {
  const service = await startService({ env: { SERVICE_JOB_TTL: "2" } });
  const ask = asks(service);
  const remote = await makeRemote();
  const options = { files: [{ name: "a.txt", content: "a" }] };
  const { id, worktree_path } = await ask.run({ task: "Do it", repo_url: remote.path, options });
  await until(
    async () => {
      const gone: unknown = await ask.get(id).catch((error: unknown) => error);
      return gone instanceof Error && "code" in gone && gone.code === "job_not_found";
    },
    { what: "the record to be removed" },
  );
  const left = await Promise.all(
    ["jobs", "jobs/events", "jobs/files", "jobs-config", "worktrees", "worktrees/.owned"].map((name) =>
      readdir(join(service.home, ".service", name)).then((names) =>
        names.filter((entry) => entry.includes(id)),
      ),
    ),
  );
  expect(left.flat()).toEqual([]);
  expect(existsSync(String(worktree_path))).toBe(false);
});
