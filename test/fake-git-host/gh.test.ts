import { createAppAuth } from "@octokit/auth-app";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { trustCertificate } from "./certificate.ts";
import { type FakeGitHost, startFakeGitHost } from "./fake-git-host.ts";
import { runProgram } from "./run-program.ts";

let host: FakeGitHost;
let cwd: string;
let token: string;

beforeAll(async () => {
  host = await startFakeGitHost();
  cwd = await temporaryDirectory();
  token = host.createToken();
});
afterAll(() => host.close());

/** The real gh, outside any checkout, knowing the host by nothing but its name, its token and its certificate. */
const gh = (args: string[], ghToken = token) =>
  runProgram("gh", args, {
    cwd,
    env: {
      ...host.environment,
      GH_HOST: host.host,
      GH_ENTERPRISE_TOKEN: ghToken,
      GH_PROMPT_DISABLED: "1",
      GH_NO_UPDATE_NOTIFIER: "1",
    },
  });

const git = (...args: string[]) =>
  runProgram("git", ["-c", "user.name=A", "-c", "user.email=a@example.com", ...args], {
    cwd,
    env: { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
  });

/** A repository whose branch `work` is one commit ahead of main. */
const repositoryWithBranch = async (name: string) => {
  const repository = await host.createRepository("acme", name);
  await git("clone", "--quiet", repository.directory, name);
  await git("-C", name, "checkout", "--quiet", "-b", "work");
  await git("-C", name, "commit", "--quiet", "--allow-empty", "--message", "Work");
  expect(await git("-C", name, "push", "--quiet", "origin", "work")).toMatchObject({ code: 0 });
  return repository;
};

const createPull = (name: string, ghToken?: string) =>
  gh(
    [
      "pr",
      "create",
      "--repo",
      `${host.host}/acme/${name}`,
      "--base",
      "main",
      "--head",
      "work",
      "--title",
      "A title",
      "--body",
      "The body",
    ],
    ghToken,
  );

test("gh pr create opens a pull request once, and gh pr list finds it again", async () => {
  await repositoryWithBranch("app.with.dots");
  expect(await createPull("app.with.dots")).toMatchObject({
    code: 0,
    stdout: `https://${host.host}/acme/app.with.dots/pull/1\n`,
  });
  expect(host.pullRequests.at(-1)).toMatchObject({
    title: "A title",
    body: "The body",
    head: "work",
    base: "main",
    author: "robot",
  });
  expect(host.requests.at(-1)?.authorization).toBe(`token ${token}`);

  const again = await createPull("app.with.dots");
  expect(again.code).toBe(1);
  expect(again.stderr).toContain("already exists");
  // gh asked before it tried; the host itself refuses too.
  const direct = await gh([
    "api",
    "repos/acme/app.with.dots/pulls",
    "-f",
    "title=x",
    "-f",
    "head=work",
    "-f",
    "base=main",
  ]);
  expect(direct.stderr).toContain("A pull request already exists for acme:work. (HTTP 422)");

  const list = await gh([
    "pr",
    "list",
    "--repo",
    `${host.host}/acme/app.with.dots`,
    "--head",
    "work",
    "--state",
    "open",
    "--json",
    "url,number,baseRefName",
  ]);
  expect(JSON.parse(list.stdout)).toEqual([
    { baseRefName: "main", number: 1, url: `https://${host.host}/acme/app.with.dots/pull/1` },
  ]);
  const view = await gh(["api", "repos/acme/app.with.dots/pulls?head=acme:work", "--jq", ".[0].html_url"]);
  expect(view.stdout.trim()).toBe(`https://${host.host}/acme/app.with.dots/pull/1`);
});

test("a pull request is refused for what the real host refuses", async () => {
  const repository = await repositoryWithBranch("refused");
  expect((await createPull("nowhere")).stderr).toContain("Could not resolve to a Repository");
  expect((await createPull("refused", "wrong")).stderr).toContain("HTTP 401");
  expect((await createPull("refused", host.createToken({ access: "read" }))).stderr).toContain(
    "Resource not accessible",
  );
  expect(await git("-C", "refused", "push", "--quiet", repository.directory, "+main:work")).toMatchObject({
    code: 0,
  });
  expect((await createPull("refused")).stderr).toContain("No commits between main and work");
});

test("a refusal that was ordered meets the next requests of its kind and nothing else", async () => {
  await repositoryWithBranch("ordered");
  for (const [how, words] of [
    [403, "Resource not accessible by integration"],
    [422, "No commits between"],
    [404, "Not Found"],
    [502, "HTTP 502"],
  ] as const) {
    using _ = host.refuse({ what: "pull_request", how });
    expect((await createPull("ordered")).stderr).toContain(words);
    expect(await gh(["api", "user", "--jq", ".login"])).toMatchObject({ code: 0, stdout: "robot\n" });
  }
  using _ = host.refuse({ what: "pull_request", how: "timeout", times: 1 });
  const hanging = await runProgram("gh", ["api", "repos/acme/ordered/pulls", "-f", "title=x"], {
    cwd,
    env: { ...host.environment, GH_HOST: host.host, GH_ENTERPRISE_TOKEN: token },
    seconds: 1,
  });
  expect(hanging.code).toBe("SIGTERM");
  expect(await createPull("ordered")).toMatchObject({ code: 0 });
});

test("gh repo create makes a real repository under an organization and under the token's user", async () => {
  host.createOwner("guild", "Organization");
  expect(await gh(["repo", "create", "guild/new.one", "--private"])).toMatchObject({ code: 0 });
  expect(host.repositories.get("guild/new.one")).toMatchObject({ private: true, owner: "guild" });
  expect(await gh(["api", "repos/guild/new.one", "--jq", ".private"])).toMatchObject({ stdout: "true\n" });
  expect(await gh(["repo", "create", `${host.host}/robot/own`, "--public"])).toMatchObject({ code: 0 });
  const clone = await runProgram("git", ["clone", "--quiet", `${host.origin}/robot/own.git`, "own"], {
    cwd,
    env: host.environment,
  });
  expect(clone).toMatchObject({ code: 0 });

  expect((await gh(["repo", "create", "guild/new.one", "--private"])).stderr).toContain(
    "Name already exists",
  );
  expect((await gh(["repo", "create", "nobody/x", "--private"])).stderr).toContain("HTTP 404");
});

test("an app's token is minted for a JWT of its own key and reaches only the installation's repositories", async () => {
  using _ = trustCertificate(host.certificate);
  const repository = await host.createRepository("installed", "app", { private: true });
  await host.createRepository("elsewhere", "app", { private: true });
  const app = host.createApp({ owner: "installed" });
  const mint = (privateKey: string) => {
    const request = async (route: string, parameters: Record<string, unknown> = {}) => {
      const url = route.replace("POST ", "").replace("{installation_id}", app.installationId);
      const headers = parameters["headers"] as Record<string, string>;
      const answer = await fetch(host.apiUrl + url, { method: "POST", headers, body: "{}" });
      if (!answer.ok) throw new Error(await answer.text());
      return { status: answer.status, data: await answer.json() };
    };
    const auth = createAppAuth({
      appId: app.appId,
      installationId: app.installationId,
      privateKey,
      request: request as never,
    });
    return auth({ type: "installation" });
  };
  const { token: minted } = await mint(app.privateKey);
  expect(await gh(["api", "repos/installed/app", "--jq", ".clone_url"], minted)).toMatchObject({
    code: 0,
    stdout: `${repository.url}\n`,
  });
  expect((await gh(["api", "repos/elsewhere/app"], minted)).stderr).toContain("HTTP 404");
  await expect(mint(host.createApp().privateKey)).rejects.toThrow("could not be decoded");
});
