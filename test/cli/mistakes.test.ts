import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, test } from "vitest";
import { git } from "../remote.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";

type Settings = Record<string, string>;
type Mistake = [typed: string[], exit: number, said: string, settings?: Settings];

const unknown = (id: string): string =>
  `There is no job ${id}; svc jobs lists those there are, and ${/^[\da-f-]*$/i.test(id) ? "at least four digits of an id will do" : "an id has no other characters than 0-9, a-f and -"}`;
const invalid = (option: string, given: string, rest: string): string =>
  `option '${option}' argument '${given}' is invalid. ${rest}\nTry: svc jobs --help`;
const statuses = "all, active, queued, running, succeeded, failed, cancelled, expired";

/** What people get wrong, and what svc says. URL and HERE stand for those of the test. */
const mistakes: Mistake[] = [
  [["rnu", "fix it"], 2, "unknown command 'rnu'\n(Did you mean run?)\nTry: svc --help"],
  [["log", "latest"], 2, "unknown command 'log'\n(Did you mean logs?)\nTry: svc --help"],
  [["build"], 2, "unknown command 'build'\nTry: svc --help"],
  [["agents"], 2, "svc agents draws on a terminal, and there is none: use svc agents --headless list"],
  [
    ["apply"],
    2,
    "missing required argument 'job_id'\nGive the id of a job; latest is the newest\nTry: svc apply --help",
  ],
  [
    ["say"],
    2,
    "missing required argument 'job_id'\nGive the id of a job; latest is the newest\nTry: svc say --help",
  ],
  // A word behind a flag is no second value of it.
  [
    ["secrets", "set", "T", "--repo", "*", "--phase", "agent", "--host", "a.example", "b.example"],
    2,
    "This command takes a name and the options of its --help. The value of a secret is no argument, because everybody on this machine can read those: give it on standard input (svc secrets set NAME … < file), and take another value if this one was a real one",
  ],
  [
    ["secrets", "rm", "T", "--phase", "setup"],
    2,
    "required option '--repo <text>' not specified\nTry: svc secrets rm --help",
  ],
  [["run", "x", "--no-repo", "--attach", "empty.png"], 2, "--attach empty.png: it is empty"],
  [
    ["run", "x", "--no-repo", "--allow-host", ""],
    2,
    "--allow-host: the profile code lets no task name hosts; put allow_host: true into it, or the hosts under sandbox.hosts",
  ],
  [["usage", "--since", "2026-13-99"], 2, "--since: must be a date such as 2026-03-02"],
  [
    ["usage", "--since", "2026-03-02", "--until", "2026-03-01"],
    2,
    "--since: 2026-03-02 is after until, which is 2026-03-01",
  ],
  [
    ["run", "x", "--no-repo", "-p", "review", "--check", "true"],
    2,
    "--check: the profile review may only read, so there is no work to check; leave them out, or give another profile",
  ],
  [["run", "x", "--no-repo", "--check", " "], 2, "--check: must be a command of 1 to 2,000 characters"],
  [
    ["run"],
    2,
    'The task is empty: give it in quotes, as svc run "…", on standard input, or in your editor with -e',
  ],
  [
    ["run", "fix", "the", "test"],
    2,
    "too many arguments for 'run'. Expected 1 argument but got 3: fix, the, test.\nPut the task in quotes.\nTry: svc run --help",
  ],
  [["run", "x", "--repo"], 2, "option '-r, --repo <url>' argument missing\nTry: svc run --help"],
  [
    ["run", "x", "-r", "./nope"],
    2,
    "There is no git repository at HERE/nope; give the path of one, or an https or ssh URL",
  ],
  [
    ["run", "x", "--no-repo", "-p", "nope"],
    2,
    'There is no profile "nope"; use one of code, review, or leave it empty',
  ],
  [
    ["run", "x", "-r", "repo", "--base", "a..b"],
    2,
    '"a..b" is not a name that git takes for a branch or tag. Give one like main, release/1.2 or v3.0.',
  ],
  [
    ["run", "x", "--base-reff", "main"],
    2,
    "unknown option '--base-reff'\n(Did you mean --base-ref?)\nTry: svc run --help",
  ],
  [["job", "abc"], 1, unknown("abc")],
  [["diff", "zzz"], 1, unknown("zzz")],
  [["diff", "00000000-0000-4000-8000-000000000000"], 1, unknown("00000000-0000-4000-8000-000000000000")],
  [["job", "latest"], 2, "latest is the newest job, and there is none: submit one with svc run"],
  [["jobs", "-s", "done"], 2, invalid("-s, --status <status>", "done", `Allowed choices are ${statuses}.`)],
  [
    ["jobs", "-n", "lots"],
    2,
    invalid("-n, --limit <number>", "lots", "It must be a whole number from 1 to 1000."),
  ],
  [
    ["jobs", "--since", "yesterday"],
    2,
    "--since yesterday: it must be a time such as 30m, 2h, 3d, 2026-03-02 or 2026-03-02T09:15",
  ],
  [["chat", "hello"], 1, "This service has no agent to talk to: start it with AGENT_MODE=true svc serve"],
  [
    ["drain"],
    2,
    "svc drain needs KV_URL; a single instance drains by itself on SIGTERM (SERVICE_DRAIN_TIMEOUT)",
  ],
  [
    ["jobs"],
    1,
    "No service answers at http://127.0.0.1:1; start it with svc serve, or set SERVICE_HOST and SERVICE_PORT",
    { SERVICE_PORT: "1" },
  ],
  [
    ["jobs"],
    1,
    'The configuration cannot be used: SERVICE_PORT is "abc": it must be a whole number from 0 to 65535',
    { SERVICE_PORT: "abc" },
  ],
  [
    ["jobs"],
    1,
    "http://URL asks for an API key: set SERVICE_API_KEY to one of the keys in the service's SERVICE_API_KEYS",
    { SERVICE_API_KEY: "" },
  ],
  [
    ["jobs"],
    1,
    "http://URL does not accept the API key that was sent: set SERVICE_API_KEY to one of the keys in the service's SERVICE_API_KEYS",
    { SERVICE_API_KEY: "another-long-key" },
  ],
];

const key = "the-key-of-this-test";
let port: string;
let home: string;
beforeAll(async () => {
  const service = await startService({ env: { SERVICE_API_KEYS: key } });
  port = new URL(service.url).port;
  home = await temporaryDirectory();
  await git(home, "init", "--quiet", join(home, "repo"));
  await writeFile(join(home, "empty.png"), "");
});

describe("what people get wrong", () => {
  test.concurrent.for(mistakes)("svc %j", async ([typed, exit, said, settings = {}], { expect }) => {
    const env = { HOME: home, SERVICE_PORT: port, SERVICE_API_KEY: key, ...settings };
    const { code, stderr, stdout } = await svc(typed, { cwd: home, env });
    const plain = stderr.replaceAll(home, "HERE").replaceAll(`127.0.0.1:${port}`, "URL");
    expect({ code, stdout, said: plain }).toEqual({ code: exit, stdout: "", said: `svc: ${said}\n` });
  });
});
