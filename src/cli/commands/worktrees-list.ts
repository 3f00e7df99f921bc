import { connect } from "../connect.ts";
import { exitCode } from "../exit-code.ts";
import type { ExitCode } from "../exit-code.ts";
import { print, printJson, terminalColumns } from "../print.ts";
import { painter } from "../text/paint.ts";
import { worktreeTable } from "../text/worktree-table.ts";

/** `svc worktrees list` */
export const worktreesList = async ({ json }: { json?: boolean }): Promise<ExitCode> => {
  const { client } = connect();
  const body = await client.list_worktrees();
  if (json === true) printJson(body);
  else if (body.worktrees.length === 0) print("No worktrees");
  else print(worktreeTable(body.worktrees, { paint: painter(process.stdout), columns: terminalColumns() }));
  return exitCode.ok;
};
