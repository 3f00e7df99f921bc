import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { type FakeGitHost, startFakeGitHost } from "./fake-git-host.ts";
import { runProgram } from "./run-program.ts";

let host: FakeGitHost;
let cwd: string;

beforeAll(async () => {
  host = await startFakeGitHost();
  cwd = await temporaryDirectory();
});
afterAll(() => host.close());

/** The real git; the token, if any, is answered by a credential helper for this host alone. */
const git = (args: string[], token?: string, seconds?: number) => {
  const helper = `!f() { echo username=x-access-token; echo password=${token}; }; f`;
  const credentials =
    token === undefined
      ? []
      : [
          "-c",
          `credential.${host.origin}.helper=${helper}`,
          "-c",
          `credential.${host.plainOrigin}.helper=${helper}`,
        ];
  return runProgram("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...credentials, ...args], {
    cwd,
    env: {
      ...host.environment,
      GIT_TERMINAL_PROMPT: "0",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_CONFIG_NOSYSTEM: "1",
    },
    ...(seconds === undefined ? {} : { seconds }),
  });
};

const commit = (directory: string) =>
  git(["-C", directory, "commit", "--quiet", "--allow-empty", "--message", "More"]);

test("a private repository is cloned and pushed to with a token, over https and over http", async () => {
  const token = host.createToken();
  const repository = await host.createRepository("acme", "private.app", {
    private: true,
    seed: { "src/a.txt": "ä\n", b: "" },
  });
  for (const [url, directory] of [
    [repository.url, "https"],
    [repository.plainUrl, "http"],
  ] as const) {
    expect(await git(["clone", "--quiet", url, directory], token)).toMatchObject({ code: 0 });
    expect((await git(["-C", directory, "ls-files"])).stdout).toBe("b\nsrc/a.txt\n");
    await commit(directory);
    expect(
      await git(["-C", directory, "push", "--quiet", "origin", `HEAD:refs/heads/${directory}`], token),
    ).toMatchObject({ code: 0 });
    const there = await git(["-C", repository.directory, "rev-parse", directory]);
    expect(there.stdout).toBe((await git(["-C", directory, "rev-parse", "HEAD"])).stdout);
  }
  const basic = `Basic ${Buffer.from(`x-access-token:${token}`).toString("base64")}`;
  expect(
    host.requests.some(
      ({ url, authorization }) => url.endsWith("/git-receive-pack") && authorization === basic,
    ),
  ).toBe(true);
});

test("a large push, which git sends in chunks, arrives whole", async () => {
  const token = host.createToken();
  const repository = await host.createRepository("acme", "large", { seed: null });
  await git(["init", "--quiet", "large"]);
  const noise = Array.from({ length: 200_000 }, (_, line) => `${line} ${Math.sin(line)}`).join("\n");
  await writeFile(`${cwd}/large/noise`, noise);
  await git(["-C", "large", "add", "noise"]);
  await commit("large");
  expect(await git(["-C", "large", "push", "--quiet", repository.url, "HEAD:main"], token)).toMatchObject({
    code: 0,
  });
  expect((await git(["-C", repository.directory, "cat-file", "-s", "main:noise"])).stdout.trim()).toBe(
    String(noise.length),
  );
});

test("without a token a public repository can be read, and nothing else", async () => {
  const open = await host.createRepository("acme", "public");
  const closed = await host.createRepository("acme", "closed", { private: true });
  expect(await git(["clone", "--quiet", open.url, "public"])).toMatchObject({ code: 0 });
  await commit("public");
  for (const args of [
    ["ls-remote", closed.url],
    ["-C", "public", "push", "origin", "HEAD:main"],
    ["ls-remote", `${host.origin}/acme/missing.git`],
  ]) {
    const refused = await git(args);
    expect(refused.code).toBe(128);
    expect(refused.stderr).toContain("could not read Username");
  }
});

test("a token that is wrong, expired, read-only or for another repository is refused with the reason", async () => {
  const repository = await host.createRepository("acme", "guarded", { private: true });
  const say = async (token: string, ...args: string[]) => (await git(args, token)).stderr;
  expect(await say("nonsense", "ls-remote", repository.url)).toContain("Authentication failed");
  expect(await say(host.createToken({ expiresAt: Date.now() - 1 }), "ls-remote", repository.url)).toContain(
    "Authentication failed",
  );
  expect(
    await say(host.createToken({ repositories: ["acme/other"] }), "ls-remote", repository.url),
  ).toContain("Repository not found");
  const reader = host.createToken({ access: "read" });
  expect(await git(["clone", "--quiet", repository.url, "guarded"], reader)).toMatchObject({ code: 0 });
  await commit("guarded");
  expect(await say(reader, "-C", "guarded", "push", "origin", "HEAD:main")).toContain(
    "Permission to acme/guarded.git denied to robot",
  );
});

test("pushes are refused by status, by the hook, by silence, and taken again afterwards", async () => {
  const token = host.createToken();
  const repository = await host.createRepository("acme", "pushed");
  await git(["clone", "--quiet", repository.url, "pushed"]);
  await commit("pushed");
  const push = (seconds?: number) => git(["-C", "pushed", "push", "origin", "HEAD:main"], token, seconds);
  for (const [how, words] of [
    ["hook", "Protected branch update failed"],
    [403, "403"],
    [500, "500"],
    ["reset", "unable to access"],
  ] as const) {
    using _ = host.refuse({ what: "push", how });
    const refused = await push();
    expect(refused.stderr).toContain(words);
    expect(refused.code).not.toBe(0);
    expect(await git(["ls-remote", repository.url])).toMatchObject({ code: 0 });
  }
  {
    using _ = host.refuse({ what: "push", how: "timeout" });
    expect((await push(1)).code).toBe("SIGTERM");
  }
  expect(await push()).toMatchObject({ code: 0 });
});

test("another host that asks for credentials is given none", async () => {
  await using other = await startFakeGitHost();
  const token = host.createToken();
  const repository = await other.createRepository("acme", "app", { private: true });
  const refused = await git(["ls-remote", repository.plainUrl], token);
  expect(refused.stderr).toContain("could not read Username");
  expect(other.requests.length).toBeGreaterThan(0);
  expect(other.requests.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
});
