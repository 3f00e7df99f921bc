import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createSecureServer } from "node:https";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { mkdir, readdir, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { createGzip } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import type { GitContext } from "./git-context.ts";
import { unconfined } from "./wall.ts";
import { downloadBatch, serverOf } from "./lfs-download.ts";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos } from "./repos.fixture.ts";
import type { RepoSettings } from "./git-context.ts";
import { createCertificate } from "../../test/fake-git-host/certificate.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { createTokens } from "./tokens.ts";

const wanted = { submodules: false, lfs: true } as const;

const contentOf = (of: string) => {
  const hash = createHash("sha256").update(of).digest("hex");
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${hash}\nsize ${of.length}\n`;
  return { of, pointer, content: { hash, size: of.length } };
};

const one = contentOf("the content\n");
const two = contentOf("other content\n");

const attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";

/** A local repository with these contents in Git LFS. */
const makeApp = async (contents = [one, two], settings: Partial<RepoSettings> = {}) => {
  const remote = await makeRemote({
    ".gitattributes": attributes,
    "a b/one.bin": one.pointer,
    "two.bin": two.pointer,
    "no pointer.bin": "small\n",
    // What git-lfs would follow.
    ".lfsconfig": "[lfs]\n\turl = http://127.0.0.1:9/elsewhere\n",
  });
  for (const { of, content } of contents) {
    const place = join(remote.url, "lfs/objects", content.hash.slice(0, 2), content.hash.slice(2, 4));
    await mkdir(place, { recursive: true });
    await writeFile(join(place, content.hash), of);
  }
  const { repos } = await makeRepos(settings);
  return { remote, repos, repo: await fetchInto(repos, remote.url) };
};

test("files in Git LFS are there and no change, for the service and for the agent's git; what is changed is seen", async () => {
  const { remote, repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one", { wanted });
  expect(worktree.warnings).toEqual([]);
  expect(await read(worktree.path, "a b/one.bin")).toBe(one.of);
  expect(await read(worktree.path, "no pointer.bin")).toBe("small\n");
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, paths: [], kept: [] });
  await write(worktree.path, { "work.txt": "1\n", "two.bin": "mine\n" });
  await plainGit(worktree.path, "add", "--all");
  const tip = await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=", tip)).toBe("two.bin\nwork.txt");
  expect(await plainGit(worktree.path, "show", `${tip}:a b/one.bin`)).toBe(one.pointer.trim());
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  // Kept beside the cached clone: the next worktree does not need the server.
  await rm(join(remote.url, "lfs"), { recursive: true });
  expect(await read((await addTo(repos, repo, "two", { wanted })).path, "two.bin")).toBe(two.of);
});

test("a link of the agent's in its clone leads nothing elsewhere: neither contents nor refs nor what is made or removed", async () => {
  const { repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one");
  const outside = await temporaryDirectory();
  for (const name of ["heads", "service-half", "tags", "origin", "pack", "info"])
    await write(outside, { [`${name}/own`]: "own\n" });
  await write(outside, { exclude: "own\n", attributes: "own\n", alternates: "own\n" });
  const listed = async () => (await readdir(outside, { recursive: true })).toSorted();
  const before = await listed();
  for (const name of ["lfs", "info", "hooks", "modules"]) {
    await rm(join(worktree.gitDir, name), { recursive: true, force: true });
    await symlink(outside, join(worktree.gitDir, name));
  }
  const again = await addTo(repos, repo, "one", { wanted });
  expect(await read(again.path, "two.bin")).toBe(two.of);
  expect((await repos.inspect(again, never)).dirty).toBe(false);
  expect(await listed()).toEqual(before);
  for (const name of ["exclude", "attributes", "alternates"]) expect(await read(outside, name)).toBe("own\n");
});

test("a worktree that is there gets them later; what was done in it stays", async () => {
  const { repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one");
  expect(worktree.warnings).toEqual([expect.stringMatching(/^Files kept in Git LFS .* svc run --lfs /)]);
  await write(worktree.path, { "two.bin": "mine\n", "staged.txt": "1\n" });
  await plainGit(worktree.path, "add", "staged.txt");
  await addTo(repos, repo, "one", { wanted });
  expect(await read(worktree.path, "a b/one.bin")).toBe(one.of);
  expect(await read(worktree.path, "two.bin")).toBe("mine\n");
  expect(await plainGit(worktree.path, "diff", "--cached", "--name-only")).toBe("staged.txt");
  expect((await repos.inspect(worktree, never)).paths.toSorted()).toEqual(["staged.txt", "two.bin"]);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("A  staged.txt\n M two.bin");
});

test("nothing is put where a link of the agent leads", async () => {
  const { repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one");
  const elsewhere = await temporaryDirectory();
  await rename(join(worktree.path, "a b/one.bin"), join(elsewhere, "one.bin"));
  await rm(join(worktree.path, "a b"), { recursive: true });
  await symlink(elsewhere, join(worktree.path, "a b"));
  await addTo(repos, repo, "one", { wanted });
  expect(await read(elsewhere, "one.bin")).toBe(one.pointer);
  expect(await read(worktree.path, "two.bin")).toBe(two.of);
});

test("a content that is not there, or more than is allowed, fails", async () => {
  const lacking = await makeApp([one]);
  const running = addTo(lacking.repos, lacking.repo, "one", { wanted });
  await expect(running).rejects.toThrow(/^The Git LFS file two\.bin cannot be downloaded: /);
  const few = await makeApp([one, two], { maxRepoBytes: 600 });
  const large = contentOf("x".repeat(600));
  await few.remote.commit({ "two.bin": large.pointer });
  const repo = await fetchInto(few.repos, few.remote.url);
  const tooMuch = "612 bytes, more than 600; raise SERVICE_MAX_REPO_BYTES";
  await expect(addTo(few.repos, repo, "one", { wanted })).rejects.toThrow(tooMuch);
});

type Answer = { status?: number; body: string; location?: string };

/** A Git LFS server on loopback, and what it was asked. */
const startServer = async (answer: (request: IncomingMessage, url: string) => Answer) => {
  const asked: { path: string; authorization: string | undefined; body: string }[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      asked.push({ path: String(request.url), authorization: request.headers.authorization, body });
      const { status = 200, body: said, location } = answer(request, url());
      response.writeHead(status, location === undefined ? {} : { location }).end(said);
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = (): string => {
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("it does not listen");
    return `http://127.0.0.1:${address.port}/acme/app.git/info/lfs`;
  };
  return { asked, url: url() };
};

const named = (href: string, header = {}) =>
  JSON.stringify({ objects: [{ oid: one.content.hash, actions: { download: { href, header } } }] });

const download = async (server: string, gitHost = "git.example") => {
  const { settings } = await makeRepos({ gitHost, gitHostToken: "secret-token" });
  const context: GitContext = {
    settings,
    env: {},
    tokens: createTokens(settings, () => undefined),
    confine: unconfined,
    programs: Promise.resolve([]),
    checked: new Set(),
    onLost: () => undefined,
    signal: never,
  };
  const cacheDir = await temporaryDirectory();
  await downloadBatch(context, { server, cacheDir, pointers: [{ path: "one.bin", content: one.content }] });
  return cacheDir;
};

test("a server is asked for what is missing, with the headers that it names, and without the token of another host", async () => {
  const server = await startServer(({ url }, base) =>
    url?.endsWith("/batch") ? { body: named(`${base}/of`, { "X-Given": "1" }) } : { body: one.of },
  );
  const cacheDir = await download(server.url);
  const { hash } = one.content;
  expect(await read(cacheDir, `lfs/objects/${hash.slice(0, 2)}/${hash.slice(2, 4)}/${hash}`)).toBe(one.of);
  expect(await readdir(join(cacheDir, "lfs/service-half"))).toEqual([]);
  expect(server.asked.map(({ path }) => path.slice(-12))).toEqual([
    "bjects/batch",
    "info/lfs/of".padStart(12, "/"),
  ]);
  expect(JSON.parse(server.asked[0]?.body ?? "")).toMatchObject({
    operation: "download",
    objects: [{ oid: hash, size: 12 }],
  });
  expect(JSON.stringify(server.asked)).not.toContain("authorization");
});

test("the token goes to the git host, and not where that host's content lies", async () => {
  const { key, certificate } = await createCertificate();
  setDefaultCACertificates([...getCACertificates("default"), certificate]);
  const seen: (string | undefined)[] = [];
  const server = createSecureServer({ key, cert: certificate }, (request, response) => {
    const at = String(request.headers.host);
    seen.push(`${at.replace(/:.*/, "")} ${request.headers.authorization ?? "none"}`);
    const href = `https://${at.replace("localhost", "127.0.0.1")}/of`;
    response.end(isBatch(request) ? named(href) : one.of);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  const gitHost = `localhost:${typeof address === "object" ? address?.port : ""}`;
  await download(serverOf(`https://${gitHost}/acme/app`, gitHost), gitHost);
  const basic = Buffer.from("x-access-token:secret-token").toString("base64");
  expect(seen).toEqual([`localhost Basic ${basic}`, "127.0.0.1 none"]);
});

const isBatch = ({ url }: IncomingMessage): boolean => url?.endsWith("/batch") === true;

test.each<[string, (request: IncomingMessage, base: string) => Answer, string]>([
  [
    "an error of the object",
    () => ({ body: `{"objects":[{"oid":"${one.content.hash}","error":{"message":"gone"}}]}` }),
    "gone",
  ],
  ["no such object", () => ({ body: '{"objects":[]}' }), "does not name it"],
  ["401", () => ({ status: 401, body: "" }), "answers 401"],
  ["no JSON", () => ({ body: "<html>" }), "JSON"],
  ["a redirect", () => ({ status: 307, body: "", location: "http://127.0.0.1:9/" }), "cannot be reached"],
  ["an address in clear", () => ({ body: named("http://169.254.169.254/latest") }), "not https"],
  ["a file", () => ({ body: named("file:///etc/passwd") }), "not https"],
  [
    "other content",
    (request, base) => ({ body: isBatch(request) ? named(`${base}/x`) : "the CONTENT\n" }),
    "not what its pointer says",
  ],
  [
    "more content",
    (request, base) => ({ body: isBatch(request) ? named(`${base}/x`) : "the content\n more" }),
    "more of it",
  ],
])("a server that answers with %s gets nothing into the cache", async (_what, answer, said) => {
  const server = await startServer(answer);
  await expect(download(server.url)).rejects.toThrow(said);
});

test.each([
  ["packed", true],
  ["plain", false],
])("an answer of any size, %s, is read as far as 4 MiB", async (_what, isPacked) => {
  let sent = 0;
  const server = createServer(({ headers }, response) => {
    expect(headers["accept-encoding"]).toBe("identity");
    response.writeHead(200, isPacked ? { "content-encoding": "gzip" } : {});
    const piece = Buffer.alloc(1 << 20, " ");
    const endless = Readable.from(
      (function* () {
        yield '{"objects":';
        for (;;) {
          sent += 1;
          yield piece;
        }
      })(),
    );
    const streams = isPacked ? [endless, createGzip({ level: 1 }), response] : [endless, response];
    pipeline(streams, () => undefined);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}/acme/app.git/info/lfs`;
  await expect(download(url)).rejects.toThrow("answers with more than 4194304 bytes");
  // What is on its way already may be more: a few megabytes packed are gigabytes.
  const before = sent;
  await new Promise((resolve) => setTimeout(resolve, 200));
  expect(sent - before).toBeLessThan(50);
});

test.each([
  "https://169.254.169.254/latest/meta-data",
  "https://[fe80::1]/x",
  "https://[::ffff:169.254.169.254]/x",
  "https://2852039166/x",
  "https://0.0.0.0/x",
  "https://localhost:8443/x",
  "https://127.0.0.1/x",
  "https://[::1]/x",
])("a server elsewhere that names %s leads nowhere", async (href) => {
  const server = await startServer((request, base) => ({
    body: isBatch(request) ? named(href) : `asked at ${base}`,
  }));
  // To the client this is no loopback address.
  await expect(download(server.url.replace("127.0.0.1", "0.0.0.0"))).rejects.toThrow(
    "names an address that leads to this machine or to metadata",
  );
  expect(server.asked).toHaveLength(1);
});

test("a server on loopback may not name metadata either", async () => {
  const server = await startServer(() => ({ body: named("https://169.254.169.254/x") }));
  await expect(download(server.url)).rejects.toThrow("leads to this machine or to metadata");
});

test("the server of a repository is beside it, over https", () => {
  const of = (url: string) => serverOf(url, "git.example");
  expect(of("https://git.example/acme/app")).toBe("https://git.example/acme/app.git/info/lfs");
  expect(of("https://else.example/acme/app.git")).toBe("https://else.example/acme/app.git/info/lfs");
  expect(of("git@git.example:acme/app.git")).toBe("https://git.example/acme/app.git/info/lfs");
  expect(() => of("git@else.example:acme/app.git")).toThrow("not GIT_HOST");
});

test("what a kill left of a download is removed after a day", async () => {
  const { repos, repo } = await makeApp();
  const halves = join(repo.gitDir, "lfs/service-half");
  await mkdir(halves, { recursive: true });
  for (const name of ["old", "new"]) await writeFile(join(halves, name), "half");
  await utimes(join(halves, "old"), 1, 1);
  await addTo(repos, repo, "one", { wanted });
  expect(await readdir(halves)).toEqual(["new"]);
});
