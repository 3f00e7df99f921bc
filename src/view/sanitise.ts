/**
 * Makes text from a model, a repository or a remote safe for a terminal: drops whole escape sequences; control characters and
 * those that reverse or hide text become U+FFFD. Linear, unlike `util.stripVTControlCharacters`.
 */
export const sanitise = (text: string): string =>
  visible(text.toWellFormed().replace(escapeSequence, "").replace(/\r\n?/g, "\n"));

/** Safe for a terminal with nothing left out: every control character is shown as U+FFFD. */
export const visible = (text: string): string =>
  text.toWellFormed().replaceAll("\t", "  ").replace(harmful, "\u{FFFD}");

/** `sanitise` on one line: breaks and runs of white space become a single space. */
export const oneLine = (text: string): string => sanitise(text).replace(/\s+/g, " ").trim();

const escape = String.fromCodePoint(0x1b);
const notifier = String.fromCodePoint(0x07);

// No alternative spans another escape character: that keeps the search linear.
const escapeSequence = new RegExp(
  [
    `${escape}\\[[0-?]*[ -/]*[@-~]`,
    `${escape}[\\]PX^_][^${escape}${notifier}]*(?:${notifier}|${escape}\\\\)`,
    `${escape}[ -/]*[0-Z\\\\^-~]`,
  ].join("|"),
  "g",
);

const harmful = /[[\p{Cc}\p{Bidi_Control}\u{2028}\u{2029}\u{E0000}-\u{E007F}]--[\n]]/gv;

export const optional = (value: string | null): string | null => (value === null ? null : oneLine(value));

/** The text as one word of a shell command. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

/** Faults of an input, `allow_hosts: must name a host; …`, with the flags of `svc` instead of the fields' names. */
export const faultWords = (faults: string): string =>
  faults.replaceAll(
    /(^|; )(?:options\.)?([a-z]\w*)[\w.]*(?=: )/g,
    (_, before: string, name: string) => before + (argumentNames.test(name) ? `The ${name}` : flagOf(name)),
  );

/** Given as arguments, or on standard input. */
const argumentNames = /^(messages|name|paths|query|task|text|value)$/;

/** A sentence of the service with the flags and commands of `svc` instead of parameters and paths. */
export const flagWords = (sentence: string): string =>
  sentence
    .replaceAll(/\bGET \/jobs\/([\w-]+)\/files\b/g, "svc files $1")
    .replaceAll(
      /\b(base_ref|file_path|max_age_hours|session_id|worktree_id)\b/g,
      (name) => `--${name.replaceAll("_", "-")}`,
    )
    .replaceAll(/\b(?:options\.(\w+)|repo_url\b)/g, (name, option?: string) => flagOf(option ?? name))
    .replaceAll(/\b(use|with) force\b/gi, "$1 --force");

const flagOf = (name: string): string => `--${optionFlags[name] ?? name.replaceAll("_", "-")}`;

const optionFlags: Record<string, string> = {
  allow_hosts: "allow-host",
  base_ref: "base",
  branches: "branch",
  checks: "check",
  files: "attach",
  hosts: "host",
  max_budget_usd: "budget",
  q: "search",
  repo_url: "repo",
  repositories: "also",
  timeout_seconds: "timeout",
};
