/** What `svc --help` ends with. */
export const helpEnd = `
Commands other than serve, config and version ask the service at SERVICE_HOST (127.0.0.1) and
SERVICE_PORT (8200), with the key in SERVICE_API_KEY, or else the first of SERVICE_API_KEYS.
Colours: off with NO_COLOR or without a terminal, on with FORCE_COLOR.

Exit codes:
  0    done; with --wait or --events: the job succeeded
  1    the job did not succeed, the service refused or failed, or it cannot be reached
  2    the command was not understood, or the service calls its input invalid
  130  interrupted while waiting; the job goes on (143: by SIGTERM)

Start:  svc serve, then  svc run "Fix the failing date test" --repo https://github.com/acme/app --wait
`;

export const runExamples = `
Examples:
  svc run "Fix the failing date test" --repo https://github.com/acme/app --wait
  svc run "Review the error handling" -r . -p review -w
  svc run - -r git@github.com:acme/app.git < task.md
  svc job "$(svc run "Update the docs" -r https://github.com/acme/app)" --events

A task that begins with a dash goes after two of them:  svc run -r . -- "-O3 breaks the build: find out why"
`;
