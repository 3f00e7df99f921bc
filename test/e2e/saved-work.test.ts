import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { asks } from "../asks.ts";
import { makeRemote } from "../remote.ts";
import { startService } from "../service.ts";

const look = `{ cat .git/objects/info/alternates; git cat-file --batch-all-objects --batch; } >found.txt 2>&1`;

const modes = ["bwrap", "landlock"] as const;

test.each(modes.flatMap((mode) => [["no repository", mode] as const, ["the same one", mode] as const]))(
  "an agent finds nothing that was saved of other jobs, with %s: %s",
  async (which, mode) => {
    const service = await startService({ env: { SERVICE_AGENT_SANDBOX: mode } });
    const { run } = asks(service);
    // What is pushed the remote lends to all.
    const [where, secret] =
      which === "no repository"
        ? [{}, /Unfinished work|PRIVATE/]
        : [{ repo_url: (await makeRemote()).path }, /Unfinished work/];
    const write =
      "echo PRIVATE > alice.txt; git add --all; git -c user.name=a -c user.email=a@b commit -qm x";
    await run({ task: `scenario: shell ${JSON.stringify({ run: write })}`, ...where });
    const failed = await run({ task: 'scenario: die {"dirt": true}', ...where });
    expect(failed).toMatchObject({ status: "failed", salvage_ref: `refs/service/salvage/${failed.id}` });
    const other = await run({ task: `scenario: shell ${JSON.stringify({ run: look })}`, ...where });
    expect(other).toMatchObject({ status: "succeeded", sandbox: { mode } });
    const found = await readFile(join(String(other.worktree_path), "found.txt"), "latin1");
    expect(found).toContain("/objects");
    expect(found).not.toMatch(secret);
    const { source, files } = await service.client.get_diff({ job_id: failed.id });
    expect({ source, hasFiles: files.length > 0 }).toEqual({ source: "salvage", hasFiles: true });
  },
);

test("a job that goes on from a failed one has its saved work", async () => {
  const service = await startService();
  const { run } = asks(service);
  const remote = await makeRemote();
  const failed = await run({ task: 'scenario: die {"dirt": true}', repo_url: remote.path });
  expect(failed.salvage_ref).not.toBeNull();
  const next = await run({ task: 'scenario: work {"file": "next.txt"}', worktree_id: failed.id });
  expect(next.status).toBe("succeeded");
  expect(await remote.show(`${next.branch}:dirt.txt`)).not.toBe("");
});
