/** What `svc --help` ends with. */
export const helpEnd = `
Commands other than serve, config, init-shared-fs and version ask the service at SERVICE_HOST (127.0.0.1)
and SERVICE_PORT (8200), with the key in SERVICE_API_KEY, or else the first of SERVICE_API_KEYS. drain asks
the key-value store at KV_URL.
Colours: off with NO_COLOR or without a terminal, on with FORCE_COLOR.

Exit codes:
  0    done; with --wait or --events: the job succeeded
  1    the job did not succeed, the service refused or failed, or it cannot be reached; drain: jobs are left
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
  svc run "Now add a test" --worktree-id "$ID"

A task that begins with a dash goes after two of them:  svc run -r . -- "-O3 breaks the build: find out why"
`;

export const chatEnd = `
Examples:
  svc chat
  svc chat "What does this service do, and where are its tests?"
  svc chat -c "$ID" "Now add the missing one"
  git diff | svc chat --hide thinking,tools,narration > review.md
  svc chat "Count the files" --json | jq -rj '.choices[0].delta.content // empty'

The conversation's id is printed, to go on with it later. At the prompt, /help lists what can be typed besides messages.
Words such as /show-thinking or /hide-tools in a message change what the agent shows to everyone who talks to it;
/stream-status tells what it shows. --hide is for this command only.

Exit: 0 the answer is complete, 1 there is none or not all of it, 2 not understood, 130 interrupted (the turn is stopped).
`;

export const serveEnd = `
SIGTERM: no new jobs; what runs gets SERVICE_DRAIN_TIMEOUT (300 s) to finish, then it is ended and its work saved.
A second SIGTERM, or Ctrl-C (SIGINT) at any time, ends the agents at once, saves their work and exits. Only a further
signal may kill the process before that is done; the next start makes it good.
`;

export const worktreesExamples = `
In two steps, prepare and run:
  ID=$(svc worktrees prepare https://github.com/acme/app)
  svc run "Fix the failing date test" --worktree-id "$ID" --wait
`;

export const prepareExamples = `
Examples:
  svc worktrees prepare https://github.com/acme/app
  svc worktrees prepare . --base-ref develop
  ID=$(svc worktrees prepare git@github.com:acme/app.git)
`;

export const cleanupExamples = `
Examples:
  svc worktrees cleanup "$ID"
  svc worktrees cleanup --max-age-hours 72 --dry-run
  svc worktrees cleanup "$ID" --force
  svc worktrees cleanup "$ID" --max-age-hours 72    # the named one, and all that are older than 72 hours

What a job uses and what is not pushed is left in place. With --force its jobs are cancelled first, and its work is
saved under a ref of the cached clone that the answer names. Exit 1 when one that was named is left in place.
`;

export const drainEnd = `
Needs KV_URL; a single instance with its jobs in files drains by itself when it gets SIGTERM. It is meant for the
hook that runs before an instance is stopped (preStop), in the instance's own environment. Chat turns and
completions are waited for as jobs are.
When it is drained, or drain is interrupted, the instance takes jobs again until it is stopped. When jobs are left
after the time-out it takes none for another 60 s: stop it then, and they get SERVICE_DRAIN_TIMEOUT to end.
`;

export const initSharedFsEnd = `
Set for every instance:  SERVICE_SHARED_FS_ROOT=ROOT, and SERVICE_REPOS_ROOT=ROOT/repos to share the clones.
A copied profile is used instead of the bundled one of its name, also by a newer svc: remove the copy to have that.
`;
