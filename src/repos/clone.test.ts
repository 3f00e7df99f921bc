import { mkdir, rm, symlink, truncate } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test, vi } from "vitest";
import { readAgentClone } from "./clone.ts";
import type { GitContext } from "./git-context.ts";
import { commitFile, never, write } from "./plain-git.fixture.ts";
import { makeWorktree } from "./repos.fixture.ts";

// The agent puts something else in the place of its files after they were looked at.
vi.mock("./find.ts", async (original) => ({ ...(await original<object>()), find: async () => "" }));

const planted = "1".repeat(40);
const files = {
  HEAD: `${planted}\n`,
  "packed-refs": `${planted} refs/heads/planted\n`,
  "logs/HEAD": `\tcheckout: moving from ${planted} to x\n`,
  "worktrees/x/HEAD": `${planted}\n`,
};

test("a link or a huge file that comes into the place of a file of the agent's clone is not read", async () => {
  const { settings, worktree, root } = await makeWorktree();
  const context = { settings, signal: never } as GitContext;
  const commit = await commitFile(worktree.path, "one.txt");
  await write(join(root, "outside"), files);
  for (const how of ["link", "huge"])
    for (const [name, text] of Object.entries(files)) {
      const file = join(worktree.gitDir, name);
      await mkdir(dirname(file), { recursive: true });
      await rm(file, { force: true });
      if (how === "link") await symlink(join(root, "outside", name), file);
      else await write(worktree.gitDir, { [name]: text }).then(() => truncate(file, 2 ** 26 + 1));
      const agent = await readAgentClone(context, worktree);
      expect([how, name, agent.head, agent.tips.includes(planted)]).toEqual([how, name, commit, false]);
    }
});
