import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { type FakeGitHost, startFakeGitHost } from "./fake-git-host.ts";
import { runProgram } from "./run-program.ts";

/** What the real git and gh are told, where no test of the service over the host shows it (test/e2e/git-host*.test.ts). */
let host: FakeGitHost;
let cwd: string;
let token: string;

beforeAll(async () => {
  host = await startFakeGitHost();
  cwd = await temporaryDirectory();
  token = host.createToken();
});
afterAll(() => host.close());

/** The token, if any, is answered by a credential helper for this host alone. */
const git = (args: string[], gitToken?: string) => {
  const helper = `!f() { echo username=x-access-token; echo password=${gitToken}; }; f`;
  const credentials = gitToken === undefined ? [] : ["-c", `credential.${host.origin}.helper=${helper}`];
  return runProgram("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...credentials, ...args], {
    cwd,
    env: {
      ...host.environment,
      GIT_TERMINAL_PROMPT: "0",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
    },
  });
};

/** Outside any checkout, knowing the host by nothing but its name, its token and its certificate. */
const gh = (line: string, ghToken = token) =>
  runProgram("gh", line.split(" "), {
    cwd,
    env: {
      ...host.environment,
      GH_HOST: host.host,
      GH_ENTERPRISE_TOKEN: ghToken,
      GH_PROMPT_DISABLED: "1",
      GH_NO_UPDATE_NOTIFIER: "1",
    },
  });

const commit = (directory: string) =>
  git(["-C", directory, "commit", "--quiet", "--allow-empty", "--message", "More"]);

test("a large push, which git sends in chunks, arrives whole", async () => {
  const repository = await host.createRepository("acme", "large", { seed: null, private: true });
  await git(["init", "--quiet", "large"]);
  const noise = Array.from({ length: 20_000 }, (_, line) => `${line} ${Math.sin(line)}`).join("\n");
  await writeFile(`${cwd}/large/noise`, noise);
  await git(["-C", "large", "add", "noise"]);
  await commit("large");
  const small = ["-c", "http.postBuffer=65536"];
  const pushed = await git(["-C", "large", ...small, "push", "--quiet", repository.url, "HEAD:main"], token);
  expect(pushed).toMatchObject({ code: 0 });
  const { stdout } = await git(["-C", repository.directory, "cat-file", "-s", "main:noise"]);
  expect(stdout.trim()).toBe(String(noise.length));
});

test("without a token a public repository can be read, and nothing else", async () => {
  const open = await host.createRepository("acme", "public");
  const closed = await host.createRepository("acme", "closed", { private: true });
  expect(await git(["clone", "--quiet", open.url, "public"])).toMatchObject({ code: 0 });
  for (const args of [
    ["ls-remote", closed.url],
    ["-C", "public", "push", "origin", "HEAD:other"],
  ])
    expect((await git(args)).stderr).toContain("could not read Username");
});

test("a token that is wrong, expired, read-only or for another repository is refused with the reason", async () => {
  const repository = await host.createRepository("acme", "guarded", { private: true });
  for (const [wrong, words] of [
    ["nonsense", "Authentication failed"],
    [host.createToken({ expiresAt: Date.now() - 1 }), "Authentication failed"],
    [host.createToken({ repositories: ["acme/other"] }), "Repository not found"],
  ] as const)
    expect((await git(["ls-remote", repository.url], wrong)).stderr).toContain(words);
  const reader = host.createToken({ access: "read" });
  expect(await git(["clone", "--quiet", repository.url, "guarded"], reader)).toMatchObject({ code: 0 });
  expect((await git(["-C", "guarded", "push", "origin", "HEAD:other"], reader)).stderr).toContain(
    "Permission to acme/guarded.git denied to robot",
  );
});

test("a pull request is refused for what the real host refuses", async () => {
  const repository = await host.createRepository("acme", "refused");
  const created = async (name: string, ghToken?: string) => {
    const line = `pr create --repo ${host.host}/acme/${name} --base main --head work --title A --body B`;
    return (await gh(line, ghToken)).stderr;
  };
  await git(["clone", "--quiet", repository.directory, "refused"]);
  const push = () => git(["-C", "refused", "push", "--quiet", "origin", "HEAD:work"]);
  await push();
  expect(await created("nowhere")).toContain("Could not resolve to a Repository");
  expect(await created("refused", "wrong")).toContain("HTTP 401");
  expect(await created("refused", host.createToken({ access: "read" }))).toContain("Resource not accessible");
  expect(await created("refused")).toContain("No commits between main and work");
  await commit("refused");
  await push();
  await created("refused");
  expect(host.pullRequests.at(-1)).toMatchObject({ head: "work", base: "main", author: "robot" });
  // gh asks before it tries; the host itself refuses too.
  const again = await gh("api repos/acme/refused/pulls -f title=x -f head=work -f base=main");
  expect(again.stderr).toContain("A pull request already exists for acme:work. (HTTP 422)");
});
