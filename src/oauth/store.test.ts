import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { key, refusal, startOAuth, type Tokens } from "./oauth.fixture.ts";

const newPath = async () => join(await temporaryDirectory(), "oauth.json");

test("54. with a store clients and tokens outlive a restart, and a used code is still known", async () => {
  const oauthStore = await newPath();
  const before = await startOAuth({ oauthStore });
  const { client_id, code, access_token, refresh_token } = await before.signedIn();
  const waiting = await before.codeFor(client_id);
  const after = await startOAuth({ oauthStore });
  expect(await after.works(access_token)).toBe(true);
  expect((await after.redeem(client_id, waiting)).status).toBe(200);
  const second = (await (await after.refresh(client_id, refresh_token)).json()) as Tokens;
  expect(await after.works(second.access_token)).toBe(true);
  const third = await startOAuth({ oauthStore });
  expect(await refusal(await third.redeem(client_id, code))).toEqual([400, "invalid_grant"]);
  expect(await third.works(second.access_token)).toBe(false);
});

test("54b. what was revoked or ended by a second use stays ended over a restart", async () => {
  const oauthStore = await newPath();
  const before = await startOAuth({ oauthStore });
  const [revoked, stolen] = [await before.signedIn(), await before.signedIn()];
  await before.redeem(stolen.client_id, stolen.code);
  expect(await (await startOAuth({ oauthStore })).works(stolen.access_token)).toBe(false);
  await before.form("/revoke", { client_id: revoked.client_id, token: revoked.refresh_token });
  const after = await startOAuth({ oauthStore });
  expect(await after.works(revoked.access_token)).toBe(false);
});

test("54c. a store that can no longer be written is a warning; sign-ins go on", async () => {
  const oauthStore = await newPath();
  const service = await startOAuth({ oauthStore });
  await rm(dirname(oauthStore), { recursive: true });
  const { access_token } = await service.signedIn();
  expect(await service.works(access_token)).toBe(true);
  expect(service.lines.join()).toContain("OAuth sign-ins were not stored");
});

test("55. without a store a restart forgets clients and tokens", async () => {
  const { client_id, access_token, refresh_token } = await (await startOAuth()).signedIn();
  const after = await startOAuth();
  expect(await after.works(access_token)).toBe(false);
  expect(await refusal(await after.refresh(client_id, refresh_token))).toEqual([401, "invalid_client"]);
});

test("56. the store is for its user's eyes, and has no secret, code, token or key in it", async () => {
  const oauthStore = await newPath();
  const service = await startOAuth({ oauthStore });
  const { client_secret = "none" } = await service.registered({
    token_endpoint_auth_method: "client_secret_post",
  });
  const { code, access_token, refresh_token } = await service.signedIn();
  expect((await stat(oauthStore)).mode & 0o777).toBe(0o600);
  const text = await readFile(oauthStore, "utf8");
  const secrets = [access_token, refresh_token].map((token) => token.split(".")[1] ?? token);
  for (const secret of [key, client_secret, code, ...secrets]) expect(text).not.toContain(secret);
});

test.each([
  ["torn", '{"format":"bridge-oauth-1","clients":[{"client_id"'],
  ["another program's", '{"users":[]}'],
  ["empty", ""],
])("57. a file that is %s is refused at the start, and stays as it is", async (_what, text) => {
  const oauthStore = await newPath();
  await writeFile(oauthStore, text);
  await expect(startOAuth({ oauthStore })).rejects.toThrow(/BRIDGE_OAUTH_STORE is .*move it away/);
  expect(await readFile(oauthStore, "utf8")).toBe(text);
});

test("58. a place that cannot be written is refused at the start", async () => {
  const oauthStore = join(await temporaryDirectory(), "missing", "oauth.json");
  await expect(startOAuth({ oauthStore })).rejects.toThrow(/BRIDGE_OAUTH_STORE is .*cannot be written/);
  const directory = await newPath();
  await mkdir(directory);
  await expect(startOAuth({ oauthStore: directory })).rejects.toThrow(/cannot be read/);
});

test("59. tokens end when the key that permitted them is withdrawn, or when the first key is set", async () => {
  const oauthStore = await newPath();
  const { access_token } = await (await startOAuth({ oauthStore })).signedIn();
  expect(await (await startOAuth({ oauthStore, keys: ["another"] })).works(access_token)).toBe(false);
  expect(await (await startOAuth({ oauthStore, keys: ["another", key] })).works(access_token)).toBe(true);
});

test("60. tokens lose a scope and a client that the settings no longer allow", async () => {
  const oauthStore = await newPath();
  const { access_token } = await (await startOAuth({ oauthStore })).signedIn();
  const reading = await startOAuth({ oauthStore, oauthScopes: ["read"] });
  const call = { name: "dispatch_task", arguments: {} };
  expect((await reading.rpc(access_token, "tools/call", call)).status).toBe(403);
  const locked = await startOAuth({
    oauthStore,
    oauthClientId: "one",
    oauthRedirectUris: ["https://a.example/"],
  });
  expect(await locked.works(access_token)).toBe(false);
});
