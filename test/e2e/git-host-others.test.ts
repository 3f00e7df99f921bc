import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import type { FakeGitHost } from "../fake-git-host/fake-git-host.ts";
import { git } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { startEavesdropper } from "./eavesdropper.ts";
import { runJob } from "./ended-job.ts";
import { hostVariables, startHost } from "./hosted.ts";

type Eavesdropper = Awaited<ReturnType<typeof startEavesdropper>>;

let other: Eavesdropper;
let host: FakeGitHost;
let service: Service;

beforeAll(async () => {
  other = await startEavesdropper();
  host = await startHost();
  service = await startService({
    env: {
      ...hostVariables(host, host.createToken()),
      ...(await trusting(host.certificate, other.certificate)),
    },
  });
});

/** What makes git, gh and Node trust all of these servers, so that no certificate is in the way of a leak. */
const trusting = async (...certificates: string[]): Promise<Record<string, string>> => {
  const file = join(await temporaryDirectory(), "authorities.pem");
  await writeFile(file, certificates.join("\n"));
  return { SSL_CERT_FILE: file, GIT_SSL_CAINFO: file, NODE_EXTRA_CA_CERTS: file };
};

const withCredentials = (headers: Eavesdropper["requests"][number]["headers"]): boolean =>
  headers.authorization !== undefined || JSON.stringify(headers).includes("ghp_");

test("a repository on another host gets no credentials, though it asks for them", async () => {
  const before = other.requests.length;
  // The same name with another port, and the same port by another name.
  for (const origin of [other.origin, `https://127.0.0.1:${other.port}`]) {
    for (const create_repo of [false, true]) {
      const job = await runJob(service, "Do it", { repo_url: `${origin}/acme/app.git`, create_repo });
      expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
      expect(job.error).toContain("asks for credentials that the service does not have");
    }
  }
  const local = await runJob(service, "Do it", {
    repo_url: `https://127.0.0.1:${host.host.split(":")[1]}/acme/app.git`,
  });
  expect(local).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(host.requests.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
  expect(other.requests.length).toBeGreaterThan(before);
  expect(other.requests.filter(({ headers }) => withCredentials(headers))).toEqual([]);
});

test("a git host that redirects requests to another host does not send the credentials with them", async () => {
  const redirecting = await startEavesdropper({ redirectTo: other.origin });
  const own = await startService({
    env: {
      GIT_HOST: redirecting.host,
      GIT_HOST_TOKEN: "ghp_redirected000000000",
      ...(await trusting(redirecting.certificate, other.certificate)),
    },
  });
  const before = other.requests.length;
  const job = await runJob(own, "Do it", { repo_url: `${redirecting.origin}/acme/app.git` });
  expect(job).toMatchObject({ status: "failed", failure_reason: "clone_failed" });
  expect(redirecting.requests.some(({ headers }) => withCredentials(headers))).toBe(true);
  expect(other.requests.length).toBeGreaterThan(before);
  expect(other.requests.filter(({ headers }) => withCredentials(headers))).toEqual([]);
});

test("submodules and LFS of a repository that lead to another host are not asked for", async () => {
  const repository = await host.createRepository("acme", "leads-away", {
    seed: {
      ".gitmodules": `[submodule "lib"]\n\tpath = lib\n\turl = ${other.origin}/acme/lib.git\n`,
      ".lfsconfig": `[lfs]\n\turl = ${other.origin}/acme/lfs\n`,
      ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
      "big.bin": `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 1\n`,
    },
  });
  const work = await temporaryDirectory();
  await git(work, "clone", "--quiet", "--config", "filter.lfs.required=false", repository.directory, ".");
  await git(work, "update-index", "--add", "--cacheinfo", `160000,${"1".repeat(40)},lib`);
  await git(work, "commit", "--quiet", "--message", "Add the submodule");
  await git(work, "push", "--quiet", "origin", "HEAD:main");
  const before = other.requests.length;
  const job = await runJob(service, 'scenario: work {"file": "more.bin"}', { repo_url: repository.url });
  expect(job).toMatchObject({ status: "succeeded", pr_url: expect.stringContaining("/pull/1") as string });
  expect(job.warnings.join()).toMatch(/Submodules are not checked out: lib.*LFS/);
  expect(other.requests.slice(before)).toEqual([]);
});

test("a name that ssh has for the git host leads to a pull request there", async () => {
  const repository = await host.createRepository("acme", "aliased");
  const ssh = join(await temporaryDirectory(), "ssh");
  const script = [
    "#!/bin/sh",
    'if [ "$1" = -G ]; then echo "hostname localhost"; exit; fi',
    "for last; do :; done",
    `case "$last" in *receive-pack*) exec git receive-pack "${repository.directory}";; esac`,
    `exec git upload-pack "${repository.directory}"`,
  ];
  await writeFile(ssh, script.join("\n"), { mode: 0o755 });
  const env = { ...hostVariables(host, host.createToken()), GIT_SSH_COMMAND: `"${ssh}"` };
  const job = await runJob(await startService({ env }), "Do it", {
    repo_url: "git@github-work:acme/aliased.git",
  });
  expect(job).toMatchObject({ status: "succeeded", error: null, warnings: [] });
  expect(job.pr_url).toContain("/acme/aliased/pull/1");
});
