import { existsSync } from "node:fs";
import { execFile } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, beforeEach, expect, test } from "vitest";
import type { Job } from "../../src/contract/job.ts";
import { git, makeRemote } from "../remote.ts";
import { fakeAgent, startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/**
 * An agent that, its work done, rewrites whatever it can reach of git's own files so that the next git there runs its
 * programs or pushes to its server. It runs as the service's user: the service must not trust a file that it could write.
 */
let service: Service;
let script: string;
let canaries: string;
let outside: string;
let remote: Awaited<ReturnType<typeof makeRemote>>;
let thief: Awaited<ReturnType<typeof makeRemote>>;

beforeAll(async () => {
  const home = await temporaryDirectory();
  const agentHome = await temporaryDirectory();
  script = join(home, "attack.sh");
  const cli = join(home, "cli");
  const attacks = `"${fakeAgent}" "$@"\ncode=$?\n. "${script}"\nexit $code\n`;
  // It is asked its version outside of any job, too.
  await writeFile(cli, `#!/bin/sh\n[ "$1" != --version ] || exec "${fakeAgent}" "$@"\n${attacks}`, {
    mode: 0o755,
  });
  service = await startService({
    home,
    env: { SERVICE_AGENT_CLI_BINARY: cli, AGENT_CLI_HOME_DIR: agentHome, SERVICE_AGENT_SANDBOX: "off" },
  });
});

beforeEach(async () => {
  canaries = await temporaryDirectory();
  outside = await temporaryDirectory();
  await writeFile(join(outside, "precious.txt"), "precious\n");
  remote = await makeRemote();
  thief = await makeRemote();
});

const touch = (name: string): string => `touch ${join(canaries, name)}`;

/** Every key of git's configuration that runs a program, and those that redirect it. */
const evilConfig = (): string => `
[core]
	fsmonitor = "${touch("fsmonitor")}; false"
	sshCommand = ${touch("sshCommand")}
	gitProxy = ${touch("gitProxy")}
	askPass = ${touch("askPass")}
	pager = ${touch("pager")}
	editor = ${touch("editor")}
	alternateRefsCommand = ${touch("alternateRefs")}
[credential]
	helper = "!${touch("credential")}"
[filter "evil"]
	clean = "${touch("clean")}; cat"
	smudge = "${touch("smudge")}; cat"
	required = true
[diff]
	external = ${touch("diff")}
[merge "evil"]
	driver = ${touch("merge")}
[commit]
	gpgSign = true
[gpg]
	program = ${touch("gpg")}
[uploadpack]
	packObjectsHook = ${touch("packObjects")}
[protocol]
	allow = always
[extensions]
	worktreeConfig = true
[url "${thief.path}"]
	insteadOf = ${remote.path}
	pushInsteadOf = ${remote.path}
[remote "origin"]
	url = ${thief.path}
	pushurl = ${thief.path}
	uploadpack = "${touch("uploadpack")}; git-upload-pack"
	receivepack = "${touch("receivepack")}; git-receive-pack"
`;

const hooks =
  "applypatch-msg commit-msg fsmonitor-watchman post-checkout post-commit post-index-change post-merge post-rewrite pre-auto-gc pre-commit pre-push prepare-commit-msg reference-transaction sendemail-validate";

/** Run in the working directory of the agent; leaves something uncommitted for the service to deal with. */
const attack = (then = ""): string => `
common=$(git rev-parse --path-format=absolute --git-common-dir)
admin=$(git rev-parse --absolute-git-dir)
echo uncommitted > dirt.txt
for directory in "$common" "$admin"; do
  mkdir -p "$directory/hooks" "$directory/info"
  for hook in ${hooks}; do
    printf '#!/bin/sh\\n%s\\n' "touch ${canaries}/hook-$hook" > "$directory/hooks/$hook"
    chmod +x "$directory/hooks/$hook"
  done
  echo '* filter=evil diff=evil merge=evil' > "$directory/info/attributes"
done
echo '* filter=evil diff=evil merge=evil' > .gitattributes
cat > "$common/evil-config" <<'END'
${evilConfig()}
END
printf '[include]\\n\\tpath = %s\\n' "$common/evil-config" >> "$common/config"
cp "$common/evil-config" "$admin/config.worktree"
cp "$common/evil-config" "${service.home}/.gitconfig"
mkdir -p "${service.home}/.config/git"
cp "$common/evil-config" "${service.home}/.config/git/config"
${then}
`;

/** A git directory of the attacker's own, with a configuration and hooks that are never restored. */
const evilGitDirectory = (): string => `
rm -rf "${outside}/evil.git" && cp -R "$common" "${outside}/evil.git"
rm -rf "${outside}/evil.git/worktrees"
cat "$common/evil-config" >> "${outside}/evil.git/config"
`;

const run = async (task: string, over: Record<string, unknown> = {}): Promise<Job> =>
  (await service.client.run_task({ task, repo_url: remote.path, wait: true, ...over })).job;

const expectUntouched = async () => {
  expect(await readdir(canaries)).toEqual([]);
  expect(await thief.branches()).toEqual(["main"]);
  expect(await readFile(join(outside, "precious.txt"), "utf8")).toBe("precious\n");
  const made = ["evil.git", "moved", "precious.txt"];
  expect((await readdir(outside)).filter((name) => !made.includes(name))).toEqual([]);
};

test("the attack is live: a git that trusts the files falls for it", async () => {
  const clone = join(outside, "clone");
  await git(outside, "clone", "--quiet", remote.path, clone);
  const plain = (...args: string[]) =>
    promisify(execFile)("git", ["-c", "user.name=T", "-c", "user.email=t@localhost", ...args], {
      cwd: clone,
      env: { PATH: process.env["PATH"], HOME: outside, GIT_CONFIG_NOSYSTEM: "1" },
    });
  await writeFile(script, attack());
  await promisify(execFile)("sh", [script], { cwd: clone });
  await plain("add", "--all");
  await plain("commit", "--no-gpg-sign", "--message=Fall for it");
  await plain("push", "origin", "HEAD:refs/heads/stolen").catch(() => undefined);
  expect(await readdir(canaries)).toEqual(
    expect.arrayContaining(["clean", "fsmonitor", "hook-post-commit", "hook-pre-commit", "receivepack"]),
  );
});

test.each<[what: string, then: () => string]>([
  ["the configuration, hooks and attributes of its clone", () => ""],
  ["its clone, now another directory", () => `rm -rf .git && cp -R "${outside}/evil.git" .git`],
])("an agent that rewrites %s gains nothing, and loses nothing", async (_, then) => {
  await writeFile(script, attack(`${evilGitDirectory()} ${then()}`));
  const job = await run("Do the default thing");
  expect(job).toMatchObject({ status: "succeeded", failure_reason: null });
  expect((await remote.branches()).toSorted()).toEqual(["main", String(job.branch)]);
  expect(await remote.show(`${job.branch}:agent-output.txt`)).toBe("Do the default thing");
  expect(await remote.show(`${job.branch}:dirt.txt`)).toBe("uncommitted");
  await expectUntouched();
  await nextJobWorks();
});

test.each<[what: string, then: () => string]>([
  ["a file that names another one", () => `rm -rf .git && printf 'gitdir: ${outside}/evil.git\\n' > .git`],
  ["a link", () => `rm -rf .git && ln -s "${outside}/evil.git" .git`],
  [
    "one that names another common directory and other objects",
    () =>
      `echo "${outside}/evil.git" > "$admin/commondir"; echo "${outside}/evil.git/objects" > "$admin/objects/info/alternates"`,
  ],
])(
  "an agent whose clone is now %s gains nothing: nothing is pushed, and its files are saved",
  async (_, then) => {
    await writeFile(script, attack(`${evilGitDirectory()} ${then()}`));
    const job = await run("Do the default thing");
    expect(job).toMatchObject({ status: "failed", failure_reason: "worktree_failed" });
    expect(job.error).toContain("the agent's clone leads out of the worktree and is not read");
    expect(await remote.branches()).toEqual(["main"]);
    const saved = (name: string) => git(String(job.cached_clone), "show", `${job.salvage_ref}:${name}`);
    expect(await saved("agent-output.txt")).toBe("Do the default thing");
    expect(await saved("dirt.txt")).toBe("uncommitted");
    await expectUntouched();
    await nextJobWorks();
  },
);

test("an agent that replaces the worktree itself by a link gains nothing: its job fails, and what it left stays", async () => {
  await writeFile(script, attack(`cd .. && mv "$OLDPWD" "${outside}/moved" && ln -s "${outside}" "$OLDPWD"`));
  const job = await run("Do the default thing");
  expect(job).toMatchObject({ status: "failed", failure_reason: "worktree_failed" });
  expect(await remote.branches()).toEqual(["main"]);
  expect(existsSync(String(job.worktree_path))).toBe(true);
  await expectUntouched();
  await nextJobWorks();
});

/** Its agent leaves git alone, so that whatever runs there is the service's doing. */
const nextJobWorks = async (): Promise<void> => {
  await writeFile(script, "");
  const next = await run('scenario: noop {"dirt": true}');
  expect(next, `${next.failure_reason}: ${next.error}`).toMatchObject({ status: "succeeded" });
  expect(await remote.show(`${next.branch}:dirt.txt`)).toBe("dirt");
  await expectUntouched();
};

// One after the other: while it runs, such an agent can spoil the git of whoever else works in the same clone.
test("nor does it when its job fails or may only read", async () => {
  await writeFile(script, attack());
  const failed = await run('scenario: error-result {"dirt": true}');
  expect(failed).toMatchObject({
    status: "failed",
    failure_reason: "agent_error",
    salvage_ref: expect.any(String) as unknown,
  });
  const review = await run('Review it. scenario: noop {"dirt": true}', { profile: "review" });
  expect(review).toMatchObject({ status: "succeeded", profile: "review", branch: null });
  expect(review.warnings.join()).toMatch(/discarded: .*dirt\.txt/);
  expect(await remote.branches()).toEqual(["main"]);
  await expectUntouched();
});
