import { expect, test } from "vitest";
import { carried, challengeOf, issuer, key, redirect, startOAuth, verifier } from "./oauth.fixture.ts";

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
  for (const more of [{ response_type: "x" }, { scope: "x" }, { code_challenge: "x" }, { resource: "x" }]) {
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

test("8. unknown scopes are not granted, and if no other is asked for the request is refused", async () => {
  expect(await refusedBack({ scope: "admin" })).toBe("invalid_scope");
  const { html } = await service.openPage(await service.authorize(client_id, { scope: "read admin" }));
  expect(html).toContain("read and search");
  expect(html).not.toMatch(/admin|give coding agents/);
});

test("9. scopes are bounded by the settings", async () => {
  const reading = await startOAuth({ oauthScopes: ["read"] });
  expect((await reading.signedIn({ scope: "read dispatch" })).scope).toBe("read");
  expect((await reading.signedIn()).scope).toBe("read");
});

test("10. a resource of another service is refused", async () => {
  for (const resource of ["https://other.example/mcp", `${issuer}/admin`, `${issuer}/mcp/../x`])
    expect(await refusedBack({ resource })).toBe("invalid_target");
});

test("11. the page names the client, the host and the scopes; it runs no script and cannot be framed", async () => {
  const response = await service.authorize(client_id);
  const { html } = await service.openPage(response.clone());
  expect(html).toMatch(
    /Reader[^]*app\.example[^]*read and search[^]*give coding agents[^]*<label for="key">/,
  );
  expect(html).not.toContain("<script");
  const policy = response.headers.get("content-security-policy") ?? "";
  expect(policy).toMatch(
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self' https:\/\/app\.example;/,
  );
  expect(policy).toContain("frame-ancestors 'none'");
  expect(response.headers.get("set-cookie")).toMatch(
    /^__Host-bridge-consent=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/,
  );
});

test("12. a client's name is text, whatever is in it", async () => {
  const client_name = `</strong><script>alert(1)</script>"'&<img src=x onerror=1>`;
  const { client_id: id } = await service.registered({ client_name });
  const { html } = await service.openPage(await service.authorize(id, { state: '"><script>' }));
  expect(html).not.toMatch(/<script|<img/);
});

test("13. the form may lead to private schemes and to loopback, which the policy names", async () => {
  for (const [uri, source] of [
    ["cursor://anysphere.cursor-retrieval/oauth/callback", "cursor:"],
    ["http://127.0.0.1:7777/callback", "http://127.0.0.1:7777"],
    ["http://[::1]:7777/callback", "http:"],
  ] as const) {
    const { client_id: id } = await service.registered({ redirect_uris: [uri] });
    const response = await service.authorize(id, { redirect_uri: uri });
    expect(response.headers.get("content-security-policy")).toContain(`form-action 'self' ${source};`);
  }
});

test("14. the right key signs in; code, state and issuer go to the client", async () => {
  const { send } = await service.openPage(await service.authorize(client_id));
  const response = await send();
  expect(response.status).toBe(303);
  expect(carried(response)).toEqual({
    code: expect.stringMatching(/^[\w-]{43}$/),
    state: "the-state",
    iss: issuer,
  });
});

test("15. a wrong key gives the page again with its error, and the fifth ends the request", async () => {
  let page = await service.openPage(await service.authorize(client_id));
  for (let attempt = 1; attempt < 5; attempt += 1) {
    const response = await page.send({ key: "wrong" });
    expect(response.status).toBe(403);
    page = await service.openPage(response);
    expect(page.html).toMatch(/role="alert"[^]*aria-invalid="true" aria-describedby="fault"/);
    expect(page.html).not.toContain("wrong");
  }
  for (const given of ["wrong", key])
    expect(carried(await page.send({ key: given }))["error"]).toBe("access_denied");
});

test("16. after a wrong key the right one still signs in", async () => {
  const first = await service.openPage(await service.authorize(client_id));
  const second = await service.openPage(await first.send({ key: "" }));
  expect(carried(await second.send())).toHaveProperty("code");
});

test("17. denying sends the user back without a code", async () => {
  const { send } = await service.openPage(await service.authorize(client_id));
  expect(carried(await send({ decision: "deny" }))).toMatchObject({
    error: "access_denied",
    state: "the-state",
  });
});

test("18. the form works only with the browser's cookie and only from the service's own origin", async () => {
  const { send, request } = await service.openPage(await service.authorize(client_id));
  const other = await service.openPage(await service.authorize(client_id));
  for (const headers of [
    { cookie: "" },
    { cookie: other.cookie },
    { cookie: `__Host-bridge-consent=${request}` },
    { origin: "https://evil.example" },
    { origin: "null" },
  ])
    expect((await send({}, headers)).status).toBe(403);
  const withoutOrigin = await service.form("/authorize", { request, key, decision: "allow" });
  expect(withoutOrigin.status).toBe(403);
  expect((await send()).status).toBe(303);
});

test("18a. a form that is sent twice, as by a double click, has one answer; later it has expired", async () => {
  let time = 0;
  const later = await startOAuth({ now: () => time });
  const { client_id: id } = await later.registered();
  const { send } = await later.openPage(await later.authorize(id));
  const [first, second] = await Promise.all([send(), send()]);
  expect(carried(first)).toHaveProperty("code");
  expect(carried(second)).toEqual(carried(first));
  expect((await send({}, { cookie: "" })).status).toBe(403);
  time += 10_000;
  expect((await send()).status).toBe(403);
});

test("19. two tabs of a browser can both sign in", async () => {
  const first = await service.openPage(await service.authorize(client_id));
  const query = new URLSearchParams({
    response_type: "code",
    client_id,
    code_challenge: challengeOf(verifier),
    code_challenge_method: "S256",
  });
  const second = await service.openPage(
    await service.at(`/authorize?${query.toString()}`, { headers: { cookie: first.cookie } }),
  );
  expect(second.cookie).toBe(first.cookie);
  expect((await first.send()).status).toBe(303);
  expect((await second.send()).status).toBe(303);
});

test("20. a page that is older than ten minutes has expired", async () => {
  let time = 0;
  const slow = await startOAuth({ now: () => time });
  const { client_id: id } = await slow.registered();
  const { send } = await slow.openPage(await slow.authorize(id));
  time += 600_000;
  expect((await send()).status).toBe(403);
});

test("20b. a thousand pages of another client end no open page", async () => {
  const flooded = await startOAuth();
  const [mine, other] = [await flooded.registered(), await flooded.registered()];
  const { send } = await flooded.openPage(await flooded.authorize(mine.client_id));
  for (let count = 0; count < 1000; count += 1) await flooded.authorize(other.client_id);
  expect(carried(await send())).toHaveProperty("code");
});

test("20c. after twenty wrong keys within a minute each further one waits, and the right one does not", async () => {
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
  expect(wrong).toBeGreaterThanOrEqual(495);
  expect(right).toBeLessThan(wrong);
  const begun = performance.now();
  expect((await guessed.rpc("wrong")).status).toBe(401);
  expect(performance.now() - begun).toBeGreaterThanOrEqual(495);
  expect((await guessed.rpc(key)).status).toBe(200);
  time += 60_000;
  for (let count = 0; count < 20; count += 1) await timed("wrong");
  expect(await timed(key)).toBeLessThan(495);
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
