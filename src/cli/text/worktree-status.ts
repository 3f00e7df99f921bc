import type { styleText } from "node:util";
import type { WorktreeStatus } from "../../contract/worktree.ts";
import type { Paint } from "./paint.ts";

const formats = {
  preparing: "yellow",
  ready: "green",
  in_use: "cyan",
  failed: "red",
  removed: "gray",
} as const satisfies Record<WorktreeStatus, Parameters<typeof styleText>[0]>;

export const paintWorktreeStatus = (status: WorktreeStatus, paint: Paint): string =>
  paint(formats[status], status);
