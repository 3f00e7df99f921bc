import { join } from "node:path";
import type { Client } from "../../client/client.ts";
import type { Worktree } from "../../contract/worktree.ts";
import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { painter } from "../text/paint.ts";
import { worktreePage } from "../text/worktree-page.ts";

/** `svc worktrees show` */
export const worktreesShow = async (id: string, { json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.get_worktree({ worktree_id: id });
  if (json === true) printJson(body);
  else {
    const clone = await cloneOf(client, body.worktree);
    print(worktreePage(body.worktree, { paint: painter(process.stdout), columns: terminalColumns(), clone }));
  }
  return exitCode.ok;
};

/** Git directory that keeps the worktree's saved work; null when it has none, or the service does not say where its clones lie. */
const cloneOf = async (client: Client, worktree: Worktree): Promise<string | null> => {
  if (worktree.salvage_ref === null) return null;
  const { repo_key: key, worktree_id: id } = worktree;
  try {
    const { volumes } = await client.get_disk_usage({}, { signal: AbortSignal.timeout(5000) });
    const rootFor = (purpose: string): string | undefined =>
      volumes.find((volume) => volume.purpose === purpose)?.path;
    const [root, rest] =
      key === null
        ? [rootFor("worktrees"), [".owned", `${id}.git`]]
        : [rootFor("repositories"), [key, "repo.git"]];
    return root === undefined ? null : join(root, ...rest);
  } catch {
    // The page is worth more than this line of it.
    return null;
  }
};
