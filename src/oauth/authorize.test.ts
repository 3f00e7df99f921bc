import { expect, test } from "vitest";
import { carried, issuer, key, redirect, startOAuth, verifier, type Tokens } from "./oauth.fixture.ts";

const service = await startOAuth();
const { client_id } = await service.registered({ client_name: "Reader" });
// A user has permitted it: it gets its errors itself.
await service.codeFor(client_id);

/** The answer goes back to the client, with these fields. */
const refusedBack = async (more: Record<string, string | undefined>) => {
  const response = await service.authorize(client_id, more);
  expect(response.status).toBe(302);
  expect(response.headers.get("location")).toMatch(/^https:\/\/app\.example\/callback\?/);
  const { error, state, iss } = carried(response);
  expect({ state, iss }).toEqual({ state: "the-state", iss: issuer });
  return error;
};

test("2. without PKCE, with plain, and with the method left out (which would mean plain) nobody signs in", async () => {
  const missing = { code_challenge: undefined, code_challenge_method: undefined };
  expect(await refusedBack(missing)).toBe("invalid_request");
  expect(await refusedBack({ code_challenge_method: "plain", code_challenge: verifier })).toBe(
    "invalid_request",
  );
  expect(await refusedBack({ code_challenge_method: undefined })).toBe("invalid_request");
  expect(await refusedBack({ code_challenge: "short" })).toBe("invalid_request");
});

test("3. only the response type code and the mode query are served", async () => {
  expect(await refusedBack({ response_type: "token" })).toBe("unsupported_response_type");
  expect(await refusedBack({ response_mode: "fragment" })).toBe("invalid_request");
});

test("4. an unknown client or redirect URI gives a page and no redirect", async () => {
  for (const more of [
    { client_id: "nobody" },
    { redirect_uri: "https://evil.example/callback" },
    { redirect_uri: `${redirect}/more` },
    { redirect_uri: "https://app.example.evil.example/callback" },
    { redirect_uri: "//evil.example" },
    { redirect_uri: "javascript:alert(1)" },
  ]) {
    const response = await service.authorize(client_id, more);
    expect([response.status, response.headers.get("location")]).toEqual([400, null]);
    expect(await response.text()).toContain('role="alert"');
  }
});

test("4b. errors of a client that no user has permitted yet are a page, wherever it wants them", async () => {
  const { client_id: id } = await service.registered({ redirect_uris: ["https://evil.example/phish"] });
  const redirect_uri = "https://evil.example/phish";
  for (const more of [{ response_type: "x" }, { code_challenge: "x" }, { resource: "x" }]) {
    const response = await service.authorize(id, { redirect_uri, ...more });
    expect([response.status, response.headers.get("location")]).toEqual([400, null]);
    expect(await response.text()).toContain('role="alert"');
  }
  expect((await service.authorize(id, { redirect_uri })).status).toBe(200);
});

test("5. a redirect URI to loopback may have another port, and nothing else may differ", async () => {
  const { client_id: id } = await service.registered({ redirect_uris: ["http://localhost:1/callback"] });
  const status = async (redirect_uri: string) => (await service.authorize(id, { redirect_uri })).status;
  expect(await status("http://localhost:54321/callback")).toBe(200);
  expect(await status("http://localhost:54321/other")).toBe(400);
  expect(await status("http://127.0.0.1:54321/callback")).toBe(400);
  expect(await status("https://localhost:54321/callback")).toBe(400);
});

test("6. a redirect URI of an https host must have the registered port", async () => {
  expect(
    (await service.authorize(client_id, { redirect_uri: "https://app.example:8443/callback" })).status,
  ).toBe(400);
});

test("7. a parameter that comes twice is refused", async () => {
  const query = new URLSearchParams({ client_id, redirect_uri: redirect, response_type: "code" });
  expect((await service.at(`/authorize?${query.toString()}&client_id=other`)).status).toBe(400);
});

test("8. unknown scopes are not granted, and whoever knows no other gets those of a client that names none", async () => {
  for (const scope of ["openid email profile", " offline_access", "offline_access", "admin", " "]) {
    const { access_token, refresh_token, scope: granted, client_id: id } = await service.signedIn({ scope });
    expect([scope, granted, await service.works(access_token)]).toEqual([scope, "read dispatch", true]);
    const again = await service.refresh(id, refresh_token, { scope });
    expect(((await again.json()) as Tokens).scope).toBe("read dispatch");
  }
  const { html } = await service.openPage(await service.authorize(client_id, { scope: "read admin" }));
  expect(html).toContain("read and search");
  expect(html.replace(/ action="[^"]+"/, "")).not.toMatch(/admin|give coding agents/);
});

test("9. scopes are bounded by the settings", async () => {
  const reading = await startOAuth({ oauthScopes: ["read"] });
  expect((await reading.signedIn({ scope: "read dispatch" })).scope).toBe("read");
  expect((await reading.signedIn()).scope).toBe("read");
});

test("10. a resource of another service is refused", async () => {
  for (const resource of [
    "https://other.example/mcp",
    `${issuer}/admin`,
    `${issuer}/mcp/../x`,
    `${issuer}/mcp//`,
  ])
    expect(await refusedBack({ resource })).toBe("invalid_target");
});

test("10b. a slash more at the end is the same resource and the same address; two are a 404 that names it", async () => {
  const initialize = async (token: string, path: string) => {
    const answer = await service.rpc(token, "tools/list", {}, path);
    return [answer.status, await answer.text()];
  };
  for (const path of ["/mcp", "/mcp/", "/sse/"]) {
    const { access_token, client_id: id } = await service.signedIn({ resource: issuer + path });
    const own = path.startsWith("/mcp");
    expect(await initialize(access_token, "/mcp")).toEqual([own ? 200 : 401, expect.any(String)]);
    expect(await initialize(access_token, "/mcp/")).toEqual([own ? 200 : 401, expect.any(String)]);
    const code = await service.codeFor(id, { resource: issuer + path });
    const other = await service.redeem(id, code, { resource: `${issuer}${path.replace(/\/?$/, "/")}` });
    expect(other.status).toBe(200);
  }
  const { access_token: token } = await service.signedIn({ resource: `${issuer}/mcp` });
  expect(await initialize(token, "/mcp//")).toEqual([404, expect.stringContaining("did you mean /mcp?")]);
  const challenge = (await service.at("/mcp/", { method: "POST" })).headers.get("www-authenticate");
  expect(challenge).toContain(`resource_metadata="${issuer}/.well-known/oauth-protected-resource/mcp"`);
  const { search } = new URL((await service.openPage(await service.authorize(client_id))).path, issuer);
  const page = await service.openPage(await service.at(`/authorize/${search}`), "/authorize/");
  expect((await page.send()).headers.get("location")).toMatch(/[?&]code=/);
});

test("11. the page names the client, the host and the scopes; it runs no script and cannot be framed", async () => {
  const response = await service.authorize(client_id);
  const { html } = await service.openPage(response.clone());
  expect(html).toMatch(
    /Reader[^]*app\.example[^]*read and search[^]*give coding agents[^]*<label for="key">/,
  );
  expect(html).not.toContain("<script");
  const policy = response.headers.get("content-security-policy") ?? "";
  expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; frame-ancestors 'none';/);
  expect(policy).toContain("frame-ancestors 'none'");
  expect(response.headers.has("set-cookie")).toBe(false);
});

test("12. a client's name is text, whatever is in it", async () => {
  const client_name = `</strong><script>alert(1)</script>"'&<img src=x onerror=1>`;
  const { client_id: id } = await service.registered({ client_name });
  const { html } = await service.openPage(await service.authorize(id, { state: '"><script>' }));
  expect(html).not.toMatch(/<script|<img/);
});

test("15. a wrong key gives the page again with its error, and the right one still signs in", async () => {
  let page = await service.openPage(await service.authorize(client_id));
  for (const given of ["wrong", ""]) {
    const response = await page.send({ key: given });
    expect(response.status).toBe(403);
    page = await service.openPage(response);
    expect(page.html).toMatch(/role="alert"[^]*aria-invalid="true" aria-describedby="fault"/);
    expect(page.html).not.toContain("wrong");
  }
  expect(carried(await page.send())).toHaveProperty("code");
});

test("18. the form works only from the service's own origin, and for what the page has asked", async () => {
  const { send, path } = await service.openPage(await service.authorize(client_id));
  for (const origin of ["https://evil.example", "null"])
    expect((await send({}, { origin })).status).toBe(403);
  expect((await service.form(path, { key, decision: "allow" })).status).toBe(403);
  const elsewhere = path.replace("app.example", "evil.example");
  const redirected = await service.form(elsewhere, { key, decision: "allow" }, { origin: issuer });
  expect([redirected.status, redirected.headers.get("location")]).toEqual([400, null]);
  expect((await send()).status).toBe(303);
});

test("20c. after twenty wrong keys within a minute the next ones are answered one a second, and the right one at once", async () => {
  let time = 0;
  const guessed = await startOAuth({ now: () => time });
  const { client_id: id } = await guessed.registered();
  const timed = async (given: string): Promise<number> => {
    const { send } = await guessed.openPage(await guessed.authorize(id));
    const begun = performance.now();
    await send({ key: given });
    return performance.now() - begun;
  };
  for (let count = 0; count < 10; count += 1) await timed("wrong");
  for (let count = 0; count < 10; count += 1) expect((await guessed.rpc("wrong")).status).toBe(401);
  const [wrong, right] = await Promise.all([timed("wrong"), timed(key)]);
  expect(wrong).toBeGreaterThanOrEqual(990);
  expect(right).toBeLessThan(wrong);
  const begun = performance.now();
  expect((await guessed.rpc("wrong")).status).toBe(401);
  expect(performance.now() - begun).toBeGreaterThanOrEqual(990);
  expect((await guessed.rpc(key)).status).toBe(200);
  time += 60_000;
  for (let count = 0; count < 20; count += 1) await timed("wrong");
  expect(await timed(key)).toBeLessThan(990);
});

test("21. on loopback another Host is refused, as is another page's Origin", async () => {
  const local = await startOAuth({ host: "127.0.0.1" });
  const { client_id: id } = await local.registered();
  const { send } = await local.openPage(await local.authorize(id));
  expect((await send({}, { host: "evil.example" })).status).toBe(403);
  expect((await send({}, { origin: "http://evil.example" })).status).toBe(403);
  expect((await send({}, { host: "bridge.example" })).status).toBe(303);
});

test("22. without keys the service is open, and approves at once", async () => {
  const open = await startOAuth({ keys: [] });
  const { client_id: id } = await open.registered();
  const response = await open.authorize(id);
  expect(response.status).toBe(302);
  const tokens = await open.redeem(id, carried(response)["code"] ?? "");
  expect(tokens.status).toBe(200);
});
