import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { git, makeRemote } from "../remote.ts";
import { temporaryDirectory } from "../temporary.ts";
import { svc } from "./run-svc.ts";
import { sampleJob } from "./sample-job.ts";
import { json, stubService, type Stub } from "./stub-service.ts";

let stub: Stub;
let checkout: string;

beforeAll(async () => {
  stub = await stubService({ "POST /jobs": json(200, { success: true, job: sampleJob() }) });
  const { work, path } = await makeRemote();
  checkout = work;
  await git(work, "remote", "add", "origin", path);
  await git(work, "fetch", "--quiet", "origin");
  await git(work, "remote", "set-url", "origin", "https://me:secret@github.com/acme/app.git");
  await mkdir(join(work, "sub"));
});

/** What `svc run` says and asks for, in a directory. */
const run = async (cwd: string, args: string[] = [], over: Record<string, string> = {}) => {
  const asked = stub.requests.length;
  const env = { SERVICE_PORT: String(stub.port), ...over };
  const { code, stderr } = await svc(["run", "x", ...args], { env, cwd });
  const [request] = stub.requests.slice(asked);
  const sent = request && (JSON.parse(jsonIn(request.body)) as Record<string, string>);
  return { code, said: stderr.trimEnd(), repo: sent?.["repo_url"], base: sent?.["base_ref"] };
};

describe("in a checkout, svc run", () => {
  const app = "https://github.com/acme/app.git";

  test("takes its remote and branch, says so in one line, and what the job does not get", async () => {
    const said = "origin github.com/acme/app, branch main";
    const answer = { code: 0, repo: app, base: "main" };
    expect(await run(checkout)).toEqual({ ...answer, said });
    await git(checkout, "commit", "--quiet", "--allow-empty", "--message=Mine");
    await writeFile(join(checkout, "sub", "new.txt"), "");
    expect(await run(join(checkout, "sub"))).toEqual({
      ...answer,
      said: `${said}; 1 uncommitted file is not included, 1 commit is not pushed`,
    });
  });

  test("leaves the base to the service when the remote does not have the branch, and takes a named one", async () => {
    await git(checkout, "switch", "--quiet", "--create", "mine");
    const { said, base } = await run(checkout);
    expect(base).toBe("");
    expect(said).toMatch(/^origin github\.com\/acme\/app, branch mine is not there: .* default branch; 1 /);
    for (const flag of ["--base", "--base-ref"])
      expect(await run(checkout, [flag, "dev"])).toMatchObject({ repo: app, base: "dev" });
    await git(checkout, "switch", "--quiet", "--detach");
    expect((await run(checkout)).said).toContain("no branch is checked out");
  });

  test.each([
    [["--no-repo"], ""],
    [["--worktree-id", "w"], ""],
    [["--session-id", "s"], ""],
    [["--repo", "https://h/a/b"], "https://h/a/b"],
    [["-r", "acme/other"], "https://github.com/acme/other"],
    [["-r", "github.com/acme/other"], "https://github.com/acme/other"],
  ])("takes nothing of it with %j", async (args, repo) => {
    expect(await run(checkout, args)).toEqual({ code: 0, said: "", repo, base: "" });
  });

  test.each([
    ["origin's own address, whatever the user's git makes of it", "https://github.com/acme/app.git"],
    ["what the user's git makes of one that no job takes", "mine://acme/app.git"],
    ["what it makes of a helper's address", "ext::work acme/app.git"],
  ])("takes %s", async (_, written) => {
    await git(checkout, "remote", "set-url", "origin", written);
    await git(checkout, "config", "url.git@elsewhere:.insteadOf", "https://github.com/");
    for (const short of ["mine://", "ext::work "])
      await git(checkout, "config", "--add", "url.https://GitHub.com/.insteadOf", short);
    expect(await run(checkout)).toMatchObject({
      code: 0,
      repo: expect.stringMatching(/^https:\/\/github\.com\/acme\/app\.git$/i) as string,
    });
  });

  test("takes the directory itself when it has no remote, where the service can read it", async () => {
    const { work } = await makeRemote();
    const said = `checkout ${work}, branch main`;
    expect(await run(work)).toEqual({ code: 0, said, repo: work, base: "main" });
    await git(work, "remote", "add", "origin", "../remote.git");
    expect((await run(work)).said).toMatch(/^origin \/.*\/remote\.git, branch main; 1 commit is not pushed$/);
    await git(work, "remote", "remove", "origin");
    const away = await run(work, [], { SERVICE_HOST: "service.invalid" });
    expect(away).toMatchObject({ code: 2, repo: undefined });
    expect(away.said).toMatch(/service\.invalid.* is on another machine.*no remote: give --repo/);
  });

  test("asks for --repo where it cannot choose, or git refuses", async () => {
    const { work } = await makeRemote();
    for (const name of ["one", "two"]) await git(work, "remote", "add", name, `https://h/a/${name}`);
    expect(await run(work)).toMatchObject({
      code: 2,
      said: expect.stringMatching(/several remotes.*--repo/),
    });
    expect(await run(work, [], { GIT_TEST_ASSUME_DIFFERENT_OWNER: "1" })).toMatchObject({
      code: 2,
      said: expect.stringMatching(/git does not read this checkout .*ownership.*--repo/),
    });
  });
});

test("a word with a slash is a path where there is one, and a repository of GIT_HOST where there is none", async () => {
  const directory = await temporaryDirectory();
  await mkdir(join(directory, "acme", "app"), { recursive: true });
  const host = { GIT_HOST: "git.acme.dev" };
  expect((await run(directory, ["-r", "acme/app"], host)).repo).toBe(join(directory, "acme", "app"));
  expect((await run(directory, ["-r", "acme/web"], host)).repo).toBe("https://git.acme.dev/acme/web");
  expect((await run(directory)).said).toBe(
    "No --repo: the agent will work in an empty directory, and nothing is pushed",
  );
});

test("options and files go with the job", async () => {
  const directory = await temporaryDirectory();
  await writeFile(join(directory, "log.txt"), "— failed");
  await writeFile(join(directory, "shot.png"), Buffer.from([0x89, 0xff]));
  const args =
    "--no-repo --model opus --timeout 30m --budget 2.5 --max-turns 9 --branch b --title t --attach log.txt --attach shot.png";
  await run(directory, args.split(" "));
  const { body = "" } = stub.requests.at(-1) ?? {};
  expect(JSON.parse(jsonIn(body))).toMatchObject({
    options: {
      model: "opus",
      timeout_seconds: 1800,
      max_budget_usd: 2.5,
      max_turns: 9,
      branch: "b",
      title: "t",
    },
  });
  for (const part of ['name="attach"; filename="log.txt"', "— failed", 'name="attach"; filename="shot.png"'])
    expect(body).toContain(part);
  expect(await run(directory, ["--attach", "none"])).toMatchObject({
    code: 2,
    repo: undefined,
    said: expect.stringContaining("--attach none: it cannot be read: ENOENT"),
  });
  expect(await run(directory, ["--attach", "."])).toMatchObject({
    code: 2,
    repo: undefined,
    said: expect.stringContaining("--attach .: it cannot be read: EISDIR"),
  });
});

test("-e takes the task from the editor, which begins with the one given", async () => {
  const env = { SERVICE_PORT: String(stub.port), GIT_EDITOR: "echo 'and more' >>" };
  expect((await svc(["run", "Fix it\n", "-e", "--no-repo"], { env })).code).toBe(0);
  expect(JSON.parse(stub.requests.at(-1)?.body ?? "")).toMatchObject({ task: "Fix it\nand more" });
  const failing = await svc(["run", "-e", "--no-repo"], { env: { ...env, GIT_EDITOR: "false" } });
  expect(failing).toMatchObject({ code: 1, stderr: expect.stringContaining("nothing was submitted") });
});

/** The line that is an object: all of a JSON body, one part of a multipart one. */
const jsonIn = (body: string): string => /^\{.*\}\r?$/m.exec(body)?.[0] ?? "";
