/** How svc ends; docs/cli.md and the end of `svc --help` tell the same. */
export const exitCode = {
  ok: 0,
  /** The job did not succeed, the service refused or failed, or it cannot be reached. */
  failure: 1,
  /** What was asked cannot work as it stands: an option, an argument, or an input that the service calls invalid. */
  usage: 2,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof exitCode)[keyof typeof exitCode];
