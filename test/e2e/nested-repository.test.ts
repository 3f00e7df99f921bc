import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git, makeRemote } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/** A program that shows that it runs outside of every sandbox: it writes into the home, and finds the service's keys. */
const evil = (home: string): string => `#!/bin/sh
{
  ls -a ${home}
  p=$PPID
  while [ $p -gt 1 ]; do tr '\\0' '\\n' </proc/$p/environ; p=$(awk '/^PPid/{print $2}' /proc/$p/status); done
} >${home}/PROOF 2>&1
echo ran >>"$(dirname "$0")/ran.txt"
cat
`;

/** A repository that git is to look into, because a file of it has changed, by the filter that it names. */
const script = (home: string): string => `
cat >evil.sh <<'END'
${evil(home)}END
chmod +x evil.sh
who='-c user.name=a -c user.email=a@localhost'
for name in vendor vendor/inner; do
  git init -q $name; echo b >$name/file; echo '* filter=e' >$name/.gitattributes
  git -C $name add file .gitattributes; git -C $name $who commit -qm x
done
git -C vendor update-index --add --cacheinfo 160000,$(git -C vendor/inner rev-parse HEAD),inner
git update-index --add --cacheinfo 160000,$(git -C vendor rev-parse HEAD),vendor
for name in vendor vendor/inner; do
  printf '[filter "e"]\\n\\tclean = %s\\n[core]\\n\\tfsmonitor = %s\\n' "$PWD/evil.sh" "$PWD/evil.sh" >>$name/.git/config
done
echo c >vendor/file; echo c >vendor/inner/file; touch -d 2040-01-01 vendor/file vendor/inner/file
`;

test.each(["bwrap", "landlock"])(
  "a repository that an agent leaves in its worktree makes the service run nothing, and its work is pushed: %s",
  async (mode) => {
    const home = await temporaryDirectory();
    const env = { SERVICE_AGENT_SANDBOX: mode, GIT_HOST_TOKEN: "ghp_canarycanarycanary" };
    const { client } = await startService({ home, env });
    const remote = await makeRemote();
    const task = `scenario: shell ${JSON.stringify({ run: script(home) })}`;
    const { job } = await client.run_task({ task, repo_url: remote.path, wait: true });
    expect(job).toMatchObject({ status: "succeeded", error: null, sandbox: { mode } });
    expect((await client.get_diff({ job_id: job.id })).diff).toContain("evil.sh");
    expect(existsSync(join(home, "PROOF"))).toBe(false);
    expect(existsSync(join(String(job.worktree_path), "ran.txt"))).toBe(false);
    const listed = await git(remote.path, "ls-tree", String(job.branch), "vendor");
    expect(listed).toMatch(/^160000 commit/);
    expect(await readFile(join(String(job.worktree_path), "vendor/file"), "utf8")).toBe("c\n");
  },
);
