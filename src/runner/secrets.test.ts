import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { secretPhases } from "../contract/secret.ts";
import { plainGit } from "../repos/plain-git.fixture.ts";
import { makeRemote } from "../repos/repos.fixture.ts";
import type { JobSecret, JobSecrets } from "../secrets/secrets.ts";
import { claimJob } from "./runner.fixture.ts";
import { findSecret } from "../secrets/find.ts";

const secretOf = (phase: string): JobSecret => ({
  name: `${phase.toUpperCase()}_SECRET`,
  value: `canary-${phase}-0123456789`,
  placeholder: `placeholder-${phase}`,
  hosts: ["api.example"],
  header: null,
  plain: phase !== "agent",
  isInside: phase !== "agent",
  branches: [],
  created_at: "2026-01-02T03:04:05.000Z",
});

const secrets = Object.fromEntries(secretPhases.map((phase) => [phase, [secretOf(phase)]])) as JobSecrets;
const valueOf = (phase: keyof JobSecrets): string => secrets[phase][0]?.value ?? "";

/** Writes its environment to $DUMP_TO. */
const agentCliBinary = join(import.meta.dirname, "../../test/e2e/environment-agent");

/** A claimed job with a secret of each phase, whose profile has this setup and these checks. */
const claimWith = async (
  setup: object,
  checks: readonly string[] = [],
  task = "scenario: work",
  own: JobSecrets = secrets,
  patch: Parameters<typeof claimJob>[1] = {},
) => {
  const job = await claimJob(task, { profile: "ours", ...patch }, { agentCliBinary }, false, {}, own);
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const profile = {
    extends: "code",
    setup: { env: { DUMP_TO: "env.ignored" }, ...setup },
    checks: checks.map((run, at) => ({ name: `check-${at}`, run })),
  };
  await writeFile(join(profiles, "ours.yml"), JSON.stringify(profile));
  await job.remote.commit({ ".gitignore": "*.ignored" });
  return job;
};

/** Whether the environment has them. */
const has = (...phases: (keyof JobSecrets)[]): string =>
  secretPhases
    .map(
      (phase) =>
        `test "$${phase.toUpperCase()}_SECRET" ${phases.includes(phase) ? "=" : "!="} ${valueOf(phase)}`,
    )
    .join(" && ");

test("commands get the secrets of their phase, `each` gets none, and an agent in a sandbox placeholders", async () => {
  const job = await claimWith({ run: [has("setup")], each: [has()] }, [has("checks")]);
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  expect(patch.checks).toMatchObject([{ status: "passed" }]);
  const path = String((await job.stored()).worktree_path);
  const environment = await readFile(join(path, "env.ignored"), "utf8");
  expect(environment).toContain("AGENT_SECRET=placeholder-agent\n");
  expect(environment).not.toMatch(/canary|SVC_WITHIN/);
});

test("what commands say of them is masked, in each form and over the ends of pieces", async () => {
  const said = [
    "echo $SETUP_SECRET; printf %s $SETUP_SECRET | base64; printf xx$SETUP_SECRET | base64 -w0",
    "for part in canary-setup- 0123456789; do printf %s $part; sleep 0.1; done; echo; exit 1",
  ];
  const job = await claimWith({ run: said, on_failure: "continue" });
  await job.execute();
  const told = JSON.stringify([await job.published(), await job.stored()]);
  expect(told).toContain("***");
  for (const form of [
    valueOf("setup"),
    ...["", "xx"].map((text) => Buffer.from(text + valueOf("setup")).toString("base64")),
  ])
    expect(told).not.toContain(form.replace(/..?=*$/, ""));
});

test.each([
  ["an ignored file", "echo token=$SETUP_SECRET > npmrc.ignored", "npmrc.ignored"],
  ["whose name is no UTF-8", "echo $SETUP_SECRET > $(printf 'a\\377.ignored')", "a\ufffd.ignored"],
  [
    "among the files of a repository that it made",
    "git init -q x; echo $SETUP_SECRET > x/.git/note",
    "x/.git/note",
  ],
  ["what is kept for people", "mkdir -p .svc/out; echo $SETUP_SECRET > .svc/out/a; exit 1", ".svc/out/a"],
])(
  "a setup that leaves one to the agent fails its job, and names the file: %s",
  async (_where, run, file) => {
    const job = await claimWith({ run: [run] });
    const { kind, patch } = await job.execute();
    expect({ kind, ...patch }).toMatchObject({
      kind: "failed",
      failure_reason: "setup_failed",
      retryable: false,
      error: expect.stringContaining(`in ${file} (SETUP_SECRET), which was removed`) as string,
    });
    const stored = await job.stored();
    expect(stored.session_id).toBeNull();
    expect(JSON.stringify([patch, stored, await job.published()])).not.toContain(valueOf("setup"));
    expect(patch.files ?? []).toEqual([]);
    expect(await findSecret(String(stored.worktree_path), [""], [valueOf("setup")])).toBeNull();
  },
);

test("what a check leaves is removed, and its job fails and names file and secret; the work is saved", async () => {
  const job = await claimWith({}, ["echo $CHECKS_SECRET > left.ignored"]);
  const { kind, patch } = await job.execute();
  expect({ kind, ...patch }).toMatchObject({
    kind: "failed",
    failure_reason: "push_failed",
    error: expect.stringContaining("in left.ignored (CHECKS_SECRET), which was removed") as string,
    salvage_ref: expect.any(String) as string,
  });
  expect(await readdir(String((await job.stored()).worktree_path))).not.toContain("left.ignored");
  expect(await plainGit(job.remote.url, "branch", "--list")).not.toContain("service/");
});

test.each([
  ["in a file", { "docker-compose.yml": "POSTGRES_PASSWORD: postgres\n" }, "docker-compose.yml"],
  // The warning masks the value.
  ["in the name of a file", { "conf/postgres.conf": "port\n" }, "conf/***.conf"],
  ["in base64", { "k8s.yml": `${Buffer.from("xpostgres").toString("base64")}\n` }, "k8s.yml"],
])(
  "a value that stands in the base is public, so nothing is removed, and a warning says it: %s",
  async (_how, files, where) => {
    const value = { value: "postgres" };
    const own = {
      ...secrets,
      setup: [{ ...secretOf("setup"), ...value }],
      checks: [{ ...secretOf("checks"), ...value }],
    };
    const run = "git status --short >status.ignored; echo postgres >new.txt";
    const task = `scenario: shell ${JSON.stringify({ run })}`;
    const job = await claimWith({ run: ["true"] }, ["true"], task, own);
    await job.remote.commit(files as Record<string, string>);
    const { kind, patch } = await job.execute();
    expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
    const { warnings, worktree_path, branch } = await job.stored();
    for (const name of ["SETUP_SECRET", "CHECKS_SECRET"])
      expect(warnings.join()).toContain(`The value of the secret ${name} stands in ${where} of the base`);
    expect(await readFile(join(String(worktree_path), "status.ignored"), "utf8")).not.toContain("D ");
    expect(await plainGit(job.remote.url, "diff", "--name-only", "main", String(branch))).toBe("new.txt");
  },
);

test.each([
  ["in a file", "echo VALUE > config.txt; git add -A; git commit -qm x", "config.txt"],
  [
    "in an earlier commit, of a file that is clean now",
    "echo VALUE > a.txt; git add -A; git commit -qm x; echo clean > a.txt; git commit -qam y",
    "a.txt",
  ],
  [
    "in a commit that another branch brought",
    "git checkout -qb b; echo VALUE > b.txt; git add -A; git commit -qm b; git rm -q b.txt; git commit -qm b2; git checkout -q -; git merge -q --no-ff -m m b",
    "b.txt",
  ],
  ["in a message", "echo x > a.txt; git add -A; git commit -qm 'token VALUE'", "the commit "],
  ["in an author", "echo x > a.txt; git add -A; git -c user.name=VALUE commit -qm x", "the commit "],
  ["as the target of a link", "mkdir d; ln -s VALUE d/a; git add -A; git commit -qm x", "d/a"],
  ["as a name", "mkdir d; touch d/VALUE; git add -A; git commit -qm x", "the name of a file in /d"],
  ["in base64", "printf 'xVALUE' | base64 > a.txt; git add -A; git commit -qm x", "a.txt"],
  [
    "in a large file",
    "{ head -c 3000000 /dev/zero; echo VALUE; } > a.bin; git add -A; git commit -qm x",
    "a.bin",
  ],
])("a value is not pushed %s, and the job says where", async (_how, run, where) => {
  const task = `scenario: shell ${JSON.stringify({ run: run.replaceAll("VALUE", valueOf("checks")) })}`;
  const job = await claimWith({}, [], task);
  const { kind, patch } = await job.execute();
  expect({ kind, ...patch }).toMatchObject({
    kind: "failed",
    failure_reason: "push_failed",
    retryable: false,
    error: expect.stringContaining(`a secret's value (CHECKS_SECRET) is in ${where}`) as string,
  });
  expect(String(patch.error)).not.toContain(valueOf("checks"));
  expect(await plainGit(job.remote.url, "branch", "--list")).not.toContain("service/");
});

const shell = (run: string): string => `scenario: shell ${JSON.stringify({ run })}`;

/** Further repositories of a job, as it is submitted with them. */
const further = (...urls: string[]) => ({
  repositories: urls.map((repo_url) => {
    const none = { path: null, branch: null, base_sha: null, commit_sha: null, pr_url: null };
    return { repo_url, base_ref: "", ...none, cached_clone: null, error: null };
  }),
});

/** Runs a follow-up of the job in its worktree. */
const goOn = async (job: Awaited<ReturnType<typeof claimWith>>, run: string) => {
  const { branch, base_ref } = await job.stored();
  const more = { id: randomUUID(), task: shell(run), worktree_id: job.record.id, idempotency: null };
  const record = { ...job.record, ...more, branch, base_ref };
  await job.store.create(record);
  return await job.execute({}, record);
};

test("a follow-up of a refused job is refused as long as the commits have the value, and then delivers", async () => {
  const leaks = `echo ${valueOf("checks")} > config.txt; git add -A; git commit -qm x`;
  const job = await claimWith({ run: ["true"] }, ["true"], shell(leaks));
  const error = expect.stringContaining("(CHECKS_SECRET) is in config.txt.") as string;
  const refused = { kind: "failed", patch: { failure_reason: "push_failed", error } };
  expect(await job.execute()).toMatchObject(refused);
  const removed = await goOn(job, "git rm -q config.txt; git commit -qm removed; echo 1 > fix.txt");
  expect(removed).toMatchObject(refused);
  expect(await plainGit(job.remote.url, "branch", "--list")).not.toContain("service/");
  expect(await goOn(job, "git reset -q --soft origin/main")).toMatchObject({ kind: "succeeded" });
  const branch = String((await job.stored()).branch);
  expect(await plainGit(job.remote.url, "log", "--format=%s", "-S", valueOf("checks"), branch)).toBe("");
});

test("what readers of one repository know is no less a secret of another, and is not taken from the one", async () => {
  const infra = await makeRemote({ "prod.env": `DB=${valueOf("setup")} ${valueOf("checks")}\n` });
  const leaks = `cat ../*/prod.env > leaked.txt; for d in ../*; do test ! -e $d/prod.env || cp $d/prod.env $d/b; done`;
  const job = await claimWith({ run: ["true"] }, [], shell(leaks), secrets, further(infra.url));
  const { kind, patch } = await job.execute();
  const error = expect.stringContaining("is in leaked.txt.") as string;
  expect({ kind, ...patch }).toMatchObject({ kind: "failed", failure_reason: "push_failed", error });
  const { warnings, repositories } = await job.stored();
  expect(warnings.join()).toContain(
    `SETUP_SECRET stands in prod.env of the base: whoever reads ${infra.url} `,
  );
  expect(repositories).toMatchObject([{ error: null }]);
});

const npmrc =
  "//registry.example/:_authToken=npm_0123456789abcd\nregistry=https://registry.example.org/a/path/\n";
const encoded = Buffer.from(`${npmrc}${npmrc}`).toString("base64");

test.each([
  ["one of its lines", npmrc, npmrc.split("\n")[1], false],
  ["its lines in two files", npmrc, npmrc.split("\n")[0], false],
  ["all of its lines", npmrc, npmrc.replaceAll("\n", "\r\n  "), true],
  ["the beginning of its base64", `${npmrc}${npmrc}`, encoded.slice(0, 76), false],
  ["all lines of its base64", `${npmrc}${npmrc}`, encoded.replaceAll(/(.{76})/g, "$1\n"), true],
])(
  "a value of several lines is public when a file has it whole: %s",
  async (_what, value, text, isPublic) => {
    const own = { ...secrets, checks: [{ ...secretOf("checks"), value }] };
    const leaks = `printf %s ${encoded} | base64 -d > copy; git add -A; git commit -qm x`;
    const job = await claimWith({}, [], shell(leaks), own);
    await job.remote.commit({ a: `${text}\n`, b: `${npmrc.split("\n")[1]}\n` });
    const { kind } = await job.execute();
    expect(kind).toBe(isPublic ? "succeeded" : "failed");
  },
);

test("what the checkout or the agent made is not taken for what commands left", async () => {
  const lib = await makeRemote({ "compose.yml": `PASSWORD=${valueOf("setup")}\n` });
  const makes = `echo ${valueOf("setup")} ${valueOf("checks")} > own.ignored; echo 1 > new.txt`;
  const job = await claimWith({ run: ["true"] }, ["true"], shell(makes));
  const profile = join(job.home, ".service", "profiles", "ours.yml");
  await writeFile(profile, (await readFile(profile, "utf8")).replace("{", '{"submodules":true,'));
  await plainGit(
    job.remote.work,
    "-c",
    "protocol.file.allow=always",
    "submodule",
    "-q",
    "add",
    lib.url,
    "lib",
  );
  await job.remote.commit({});
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
  const path = String((await job.stored()).worktree_path);
  // Commands that were killed: the next run removes what they left, and nothing else.
  const mark = join(path, "../.owned", `${job.record.id}.git`, "commands-ran");
  await writeFile(mark, "");
  await writeFile(join(path, "left.ignored"), valueOf("checks"));
  const said: string[] = [];
  const followUp = {
    ...job.record,
    id: randomUUID(),
    worktree_id: job.record.id,
    resumed_at: job.record.created_at,
  };
  await job.store.create({ ...followUp, idempotency: null });
  await job.execute({ warn: (text) => void said.push(text) }, followUp);
  expect(said.join()).toContain("value was in left.ignored (CHECKS_SECRET), which was removed");
  expect(await readdir(path)).toEqual(expect.arrayContaining(["own.ignored", "lib"]));
  expect(await readdir(path)).not.toContain("left.ignored");
  expect(await readdir(join(path, "lib"))).toContain("compose.yml");
});

test("a setup that leaves one in a further repository fails its job, and names the repository", async () => {
  const lib = await makeRemote({ "own.txt": "own\n" });
  const run = "for d in ../*; do echo $SETUP_SECRET | tee $d/left.ignored >> $d/own.txt; done";
  const job = await claimWith({ run: [run] }, [], undefined, secrets, further(lib.url));
  const { patch } = await job.execute();
  expect(patch.failure_reason).toBe("setup_failed");
  expect(patch.error).toMatch(/ left.ignored \(SETUP_SECRET\),.* [\w-]+\/left.ignored \(SETUP_SECRET\)/);
  // One of the repository is restored.
  const [entry] = (await job.stored()).repositories;
  expect(await readFile(join(String(entry?.path), "own.txt"), "utf8")).toBe("own\n");
});

test("what the remote has is not searched", async () => {
  const run = "echo x > a.txt; git add -A; git commit -qm x; git mv theirs.txt moved.txt; git commit -qm y";
  const job = await claimWith({}, [], `scenario: shell ${JSON.stringify({ run })}`);
  await job.remote.commit({ "theirs.txt": valueOf("agent") });
  const { kind, patch } = await job.execute();
  expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
});

const told = 'echo "[$SETUP_SECRET]"';

/** What a setup says of its plain secret, and the job's warnings. */
const saidOn = async (job: Awaited<ReturnType<typeof claimWith>>, patch: object) => {
  await job.execute({}, { ...job.record, ...patch });
  const events = await job.published();
  const said = events.map((event) => (event.type === "setup" ? event.text : "")).join("");
  return { said, warnings: (await job.stored()).warnings.join() };
};

test("a plain secret is given to setups on the default branch, and not on a branch that a job works on", async () => {
  const usual = await saidOn(await claimWith({ run: [told] }), {});
  expect(usual.said).toContain("[***]");
  expect(usual.warnings).not.toContain("plain secret");
  for (const branch of ["topic", "service/12345678"]) {
    const job = await claimWith({ run: [told] });
    await job.remote.commit({}, { branch });
    const { said, warnings } = await saidOn(job, { base_ref: branch });
    expect(said).toContain("\n[]\n");
    expect(warnings).toMatch(
      /did not get SETUP_SECRET, which is a plain secret: the base .*(Set it again|Base a new job)/,
    );
  }
  const known = await claimWith({ run: [told] });
  await known.store.create({ ...known.record, id: randomUUID(), branch: "main", idempotency: null });
  expect((await saidOn(known, {})).warnings).toContain("the base main is a branch that this service pushed");
});

test("a setup that fails without its plain secret says so first", async () => {
  const job = await claimWith({ run: ["exit 3"] });
  await job.remote.commit({}, { branch: "topic" });
  const { patch } = await job.execute({}, { ...job.record, base_ref: "topic" });
  expect(patch.error).toMatch(/^The setup did not get SETUP_SECRET, .*\. The setup failed: exit code 3\.\n/);
});

test("variables of a repository that change what programs load reach its commands, and not the agent", async () => {
  const env = { NODE_OPTIONS: "--require ./x.js", LD_PRELOAD: "", PYTHONSTARTUP: "x.py", TZ: "UTC" };
  const has = 'test "$PYTHONSTARTUP" = x.py && test "$TZ" = UTC';
  const job = await claimJob("scenario: work", { profile: "ours" }, { agentCliBinary });
  const profiles = join(job.home, ".service", "profiles");
  await mkdir(profiles, { recursive: true });
  const checks = [{ name: "has", run: has }];
  await writeFile(join(profiles, "ours.yml"), JSON.stringify({ extends: "code", checks }));
  const service = {
    name: "web",
    command: `${has} && touch served.ignored; sleep 60`,
    ready: `${has} && test -e served.ignored`,
  };
  const more = { NODE_OPTIONS: "--max-old-space-size=4096 --enable-source-maps", DUMP_TO: "env.ignored" };
  for (const [at, nodeOptions] of [env.NODE_OPTIONS, more.NODE_OPTIONS].entries()) {
    const file = {
      run: [has],
      services: [service],
      each: [has],
      env: { ...env, ...more, NODE_OPTIONS: nodeOptions },
    };
    const own = at === 0 ? job : await claimJob("scenario: work", { profile: "ours" }, { agentCliBinary });
    if (at === 1) await mkdir(join(own.home, ".service", "profiles"), { recursive: true });
    if (at === 1)
      await writeFile(
        join(own.home, ".service", "profiles/ours.yml"),
        JSON.stringify({ extends: "code", checks }),
      );
    // Programs of the test itself are Node's, too.
    const commands = nodeOptions === env.NODE_OPTIONS ? { ...file, services: [], each: [] } : file;
    await own.remote.commit({ ".svc/setup.yml": JSON.stringify(commands), ".gitignore": "*.ignored" });
    const { kind, patch } = await own.execute();
    expect({ kind, error: patch.error ?? null }).toEqual({ kind: "succeeded", error: null });
    expect(patch.checks).toMatchObject([{ status: "passed" }]);
    const stored = await own.stored();
    const seen = await readFile(join(String(stored.worktree_path), "env.ignored"), "utf8");
    expect(seen).toMatch(/^TZ=UTC$/m);
    expect(seen).not.toMatch(/PYTHONSTARTUP|LD_PRELOAD|SVC_SETUP_/);
    expect(seen.includes("NODE_OPTIONS=")).toBe(at === 1);
    const withheld = at === 0 ? "NODE_OPTIONS, LD_PRELOAD, PYTHONSTARTUP" : "LD_PRELOAD, PYTHONSTARTUP";
    expect(stored.warnings.join()).toContain(`does not get ${withheld} of env in .svc/setup.yml`);
  }
});
