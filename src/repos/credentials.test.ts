import { spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { createServer, type Server } from "node:https";
import { writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { generate } from "selfsigned";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never } from "./plain-git.fixture.ts";
import { makeRepos, type TestRepos } from "./repos.fixture.ts";
import { createTokens } from "./tokens.ts";

const token = "canary-static-token";

type Host = {
  name: string;
  seen: { method: string; path: string; authorization: string | undefined }[];
  ca: string;
};

/** One for all: of several with the same name only the first would be used. */
let certificate: ReturnType<typeof generate> | undefined;

/** An https server that wants credentials for everything and then has nothing, but mints app tokens. */
const startHost = async (): Promise<Host> => {
  const pems = await (certificate ??= generate([{ name: "commonName", value: "localhost" }], {
    extensions: [{ name: "subjectAltName", altNames: [{ type: 2, value: "localhost" }] }],
  }));
  const seen: Host["seen"] = [];
  const server: Server = createServer({ key: pems.private, cert: pems.cert }, (request, response) => {
    const { authorization } = request.headers;
    seen.push({ method: request.method ?? "", path: request.url ?? "", authorization });
    if (request.url?.endsWith("/access_tokens") === true) {
      response.writeHead(201, { "content-type": "application/json" });
      const expires = new Date(Date.now() + 3_600_000).toISOString();
      response.end(JSON.stringify({ token: "canary-app-token", expires_at: expires, permissions: {} }));
      return;
    }
    if (authorization === undefined)
      response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
    else response.writeHead(404).end(`no such repository for ${authorization}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterFile(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = server.address() as AddressInfo;
  const ca = join(await temporaryDirectory(), "ca.pem");
  await writeFile(ca, pems.cert);
  setDefaultCACertificates([...getCACertificates("default"), pems.cert]);
  return { name: `localhost:${port}`, seen, ca };
};

const placeFor = (
  gitHost: string,
  { ca }: Host,
  more: Partial<TestRepos["settings"]> = {},
): Promise<TestRepos> =>
  makeRepos({ gitHost, gitHostToken: token, ...more }, { PATH: process.env["PATH"], SSL_CERT_FILE: ca });

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

/** The key in the form that people put into one line of an environment file. */
const app: Partial<TestRepos["settings"]> = {
  gitHostAppId: "7",
  gitHostAppInstallationId: "42",
  gitHostAppPrivateKey: privateKey
    .export({ type: "pkcs8", format: "pem" })
    .toString()
    .replaceAll("\n", "\\n"),
};

const basic = (password: string): string =>
  `Basic ${Buffer.from(`x-access-token:${password}`).toString("base64")}`;

const fetchError = async ({ repos }: TestRepos, url: string): Promise<string> =>
  repos.fetch({ url, jobId: "job", signal: never }).then(
    () => "",
    (error: unknown) => String(error),
  );

test("the git host gets the token, and neither the error nor the disk shows it", async () => {
  const host = await startHost();
  const service = await placeFor(host.name, host);
  const error = await fetchError(service, `https://${host.name}/acme/app`);
  expect(host.seen.map((request) => request.authorization)).toContain(basic(token));
  expect(error).toContain("there is no git repository at this URL");
  expect(error).not.toContain("canary");
  expect(error).not.toContain(Buffer.from(token).toString("base64"));
  const onDisk = spawnSync("grep", ["-r", "canary", service.root]);
  expect(onDisk.status).toBe(1);
});

test("another https host, even one on another port of the same name, gets no token", async () => {
  const host = await startHost();
  const service = await placeFor("localhost", host);
  const error = await fetchError(service, `https://${host.name}/acme/app`);
  expect(host.seen.length).toBeGreaterThan(0);
  expect(host.seen.every((request) => request.authorization === undefined)).toBe(true);
  expect(error).toContain("asks for credentials that the service does not have");
});

test("an app's token is minted on the host's own API and preferred to the static one", async () => {
  const host = await startHost();
  const service = await placeFor(host.name, host, app);
  await fetchError(service, `https://${host.name}/acme/app`);
  expect(host.seen[0]).toMatchObject({ method: "POST", path: "/api/v3/app/installations/42/access_tokens" });
  expect(host.seen.map((request) => request.authorization)).toContain(basic("canary-app-token"));
  expect(host.seen.map((request) => request.authorization)).not.toContain(basic(token));
});

test("without the app's token the static one is used, and without both the failure is reported", async () => {
  const settings = { ...(await makeRepos()).settings, gitHost: "localhost:9", ...app };
  expect(await createTokens({ ...settings, gitHostToken: token }, ignored).get(null, never)).toBe(token);
  await expect(createTokens(settings, ignored).get(null, never)).rejects.toThrow(
    "no token could be got for the app 7 on localhost:9",
  );
});

const ignored = (): void => undefined;
