import { expect, test } from "vitest";
import { carried, redirect, refusal, startOAuth } from "./oauth.fixture.ts";

const service = await startOAuth();

test("45. a client that registers gets an id, and a secret unless it is public", async () => {
  const response = await service.register({
    redirect_uris: [redirect],
    client_name: "Reader",
    logo_uri: "x",
  });
  expect(response.status).toBe(201);
  expect(await response.json()).toEqual({
    client_id: expect.any(String),
    client_id_issued_at: expect.any(Number),
    client_secret: expect.stringMatching(/^[\w-]{43}$/),
    client_secret_expires_at: 0,
    client_name: "Reader",
    redirect_uris: [redirect],
    token_endpoint_auth_method: "client_secret_basic",
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    scope: "read dispatch",
  });
  expect(await service.registered()).not.toHaveProperty("client_secret");
});

test.each([
  "https://claude.ai/api/mcp/auth_callback",
  "http://localhost:54321/callback",
  "http://127.0.0.1/callback",
  "http://[::1]:8080/",
  "cursor://anysphere.cursor-retrieval/oauth/callback",
  "com.example.app:/callback",
  "vscode://vscode.github-authentication/did-authenticate",
  "vscode-insiders:/x",
  "windsurf:/x",
  "zed:/x",
  "claude:/x",
  "warp://mcp/oauth2callback",
  "systemprompt://oauth/callback",
  "raycast://oauth?package_name=mcp",
  "dev.warp+preview:/x",
  "chromebook-client:/x",
])("46. %s can be registered", async (uri) => {
  expect((await service.register({ redirect_uris: [uri] })).status).toBe(201);
});

test.each([
  "http://evil.example/callback",
  "http://localhost.evil.example/callback",
  "https://app.example/callback#fragment",
  "https://user:password@app.example/",
  "https://app;script-src.example/",
  "https://app.example/a b",
  "https://",
  "/callback",
  "javascript:alert(1)",
  "data:text/html,x",
  "file:///etc/passwd",
  "ms-msdt:/id",
  "search-ms:x",
  "itms-services:x",
  "smb://x",
  "ssh://x",
  "android-app:x",
  "chrome-extension://x",
  "JavaScript:alert(1)",
  "vbscript:x",
  "blob:https://app.example/x",
  "filesystem:https://app.example/x",
  "view-source:https://app.example/",
  "about:blank",
  "intent://x#Intent;end",
  "intent:x",
  "content://x",
  "jar:x",
  "ftp://app.example/x",
  "ws://app.example/x",
  "mailto:a@app.example",
  "tel:1",
])("47. %s cannot", async (uri) => {
  const response = await service.register({ redirect_uris: [redirect, uri] });
  expect(await refusal(response)).toEqual([400, "invalid_redirect_uri"]);
});

test("47b. metadata that are null are as good as none", async () => {
  const nothing = { client_name: null, grant_types: null, response_types: null, scope: null, logo_uri: null };
  const response = await service.register({
    redirect_uris: [redirect],
    token_endpoint_auth_method: null,
    ...nothing,
  });
  expect([response.status, await response.json()]).toMatchObject([
    201,
    { client_name: "", token_endpoint_auth_method: "client_secret_basic", response_types: ["code"] },
  ]);
});

test("48. a registration that is too large, empty or of another kind is refused", async () => {
  const refused = async (body: object) => refusal(await service.register(body));
  const many = Array.from({ length: 21 }, (_, index) => `https://app.example/${index}`);
  expect(await refused({ redirect_uris: many })).toEqual([400, "invalid_redirect_uri"]);
  const long = Array.from({ length: 9 }, (_, index) => `https://app.example/${index}${"x".repeat(480)}`);
  expect(await refused({ redirect_uris: long })).toEqual([400, "invalid_redirect_uri"]);
  expect(await refused({ redirect_uris: [`${long[0]}${"x".repeat(20)}`] })).toEqual([
    400,
    "invalid_redirect_uri",
  ]);
  expect(await refused({})).toEqual([400, "invalid_redirect_uri"]);
  expect(await refused({ redirect_uris: [redirect], client_name: "x".repeat(201) })).toEqual([
    400,
    "invalid_client_metadata",
  ]);
  expect(await refused({ redirect_uris: [redirect], client_name: "x".repeat(40_000) })).toEqual([
    413,
    "invalid_request",
  ]);
  for (const more of [
    { token_endpoint_auth_method: "private_key_jwt" },
    { grant_types: ["client_credentials"] },
    { response_types: ["token"] },
  ])
    expect(await refused({ redirect_uris: [redirect], ...more })).toEqual([400, "invalid_client_metadata"]);
});

test("49. redirect URIs are bounded by the settings, exactly", async () => {
  const bounded = await startOAuth({ oauthRedirectUris: [redirect, "http://localhost:7777/callback"] });
  const refused = await bounded.register({ redirect_uris: ["https://other.example/"] });
  expect(await refusal(refused)).toEqual([400, "invalid_redirect_uri"]);
  const { client_id } = await bounded.registered({ redirect_uris: ["http://localhost:7777/callback"] });
  const status = async (redirect_uri: string) =>
    (await bounded.authorize(client_id, { redirect_uri })).status;
  expect(await status("http://localhost:7777/callback")).toBe(200);
  expect(await status("http://localhost:8888/callback")).toBe(400);
});

test("50. a flood of registrations and open pages ends nobody's page, registration or sign-in", async () => {
  const crowded = await startOAuth();
  const used = await crowded.signedIn();
  const { client_id } = await crowded.registered();
  const page = await crowded.openPage(await crowded.authorize(client_id));
  for (let count = 0; count < 1000; count += 1)
    await crowded.authorize((await crowded.registered()).client_id);
  const { code = "" } = carried(await page.send());
  expect((await crowded.redeem(client_id, code)).status).toBe(200);
  expect(await crowded.works(used.access_token)).toBe(true);
});

test("50b. an id that this process has not given is no client's, whatever is in it", async () => {
  const other = await startOAuth();
  const { client_id } = await other.registered({ redirect_uris: ["https://evil.example/"] });
  const [seal = "", sealed = ""] = client_id.split(".");
  const own = await service.registered();
  const [ownSeal = ""] = own.client_id.split(".");
  for (const id of [client_id, sealed, `${seal}.`, `${ownSeal}.${sealed}`, `${own.client_id}.x`, ".", ""])
    expect((await service.authorize(id, { redirect_uri: "https://evil.example/" })).status).toBe(400);
});

const locked = {
  oauthClientId: "the-client",
  oauthClientSecret: "the-secret-of-it",
  oauthRedirectUris: [redirect],
};

test("51. with a client in the settings nobody can register, and nothing is handed out", async () => {
  const closed = await startOAuth(locked);
  const response = await closed.register({ redirect_uris: ["https://evil.example/"] });
  const body = await response.text();
  expect([response.status, JSON.parse(body)]).toMatchObject([403, { error: "access_denied" }]);
  expect(body).not.toMatch(/the-client|the-secret/);
  const metadata = await (await closed.at("/.well-known/oauth-authorization-server")).json();
  expect(metadata).not.toHaveProperty("registration_endpoint");
  expect((await closed.authorize("the-client", { redirect_uri: "https://evil.example/" })).status).toBe(400);
  expect((await closed.authorize("another")).status).toBe(400);
});

test("52. the client of the settings signs in with its secret", async () => {
  const closed = await startOAuth(locked);
  const { send } = await closed.openPage(await closed.authorize("the-client"));
  const { code = "" } = carried(await send());
  const fields = { client_secret: locked.oauthClientSecret };
  expect((await closed.redeem("the-client", code, fields)).status).toBe(200);
  const next = await closed.codeFor("the-client");
  expect(await refusal(await closed.redeem("the-client", next))).toEqual([401, "invalid_client"]);
});

test("53. settings that cannot work are refused with what to do", async () => {
  await expect(startOAuth({ ...locked, oauthRedirectUris: [] })).rejects.toThrow(
    /OAUTH_CLIENT_ID is set without OAUTH_ALLOWED_REDIRECT_URIS/,
  );
  await expect(startOAuth({ oauthRedirectUris: ["http://app.example/"] })).rejects.toThrow(/must be https/);
});
