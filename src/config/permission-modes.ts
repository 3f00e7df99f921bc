/** The agent CLI's permission modes; the last is a flag of its own there. */
export const permissionModes = [
  "default",
  "acceptEdits",
  "plan",
  "dontAsk",
  "auto",
  "bypassPermissions",
  "dangerously-skip-permissions",
] as const;
