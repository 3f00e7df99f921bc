import { expect, test } from "vitest";
import { issuer, key, refusal, startOAuth, type Tokens } from "./oauth.fixture.ts";

const service = await startOAuth();
const tokensOf = async (response: Response) => (await response.json()) as Tokens;

test("29. a wrong or missing verifier gives no tokens, and the code is gone", async () => {
  const { client_id } = await service.registered();
  const code = await service.codeFor(client_id);
  const wrong = await service.redeem(client_id, code, { code_verifier: "w".repeat(43) });
  expect(await refusal(wrong)).toEqual([400, "invalid_grant"]);
  expect(await refusal(await service.redeem(client_id, code))).toEqual([400, "invalid_grant"]);
  const next = await service.codeFor(client_id);
  const fields = { grant_type: "authorization_code", client_id, code: next };
  expect(await refusal(await service.form("/token", fields))).toEqual([400, "invalid_request"]);
});

test("30. a code that comes a second time ends its whole family", async () => {
  const { client_id, code, access_token, refresh_token } = await service.signedIn();
  expect(await service.works(access_token)).toBe(true);
  expect(await refusal(await service.redeem(client_id, code))).toEqual([400, "invalid_grant"]);
  expect(await service.works(access_token)).toBe(false);
  expect(await refusal(await service.refresh(client_id, refresh_token))).toEqual([400, "invalid_grant"]);
});

test("31. of many requests with one code at a time, one gets tokens", async () => {
  const { client_id } = await service.registered();
  const code = await service.codeFor(client_id);
  const answers = await Promise.all(Array.from({ length: 10 }, () => service.redeem(client_id, code)));
  expect(answers.filter(({ status }) => status === 200).length).toBe(1);
});

test("32. a code serves only the client that it was made for, with its redirect URI", async () => {
  const [mine, other] = [await service.registered(), await service.registered()];
  const code = await service.codeFor(mine.client_id);
  expect(await refusal(await service.redeem(other.client_id, code))).toEqual([400, "invalid_grant"]);
  const next = await service.codeFor(mine.client_id);
  const elsewhere = await service.redeem(mine.client_id, next, { redirect_uri: "https://evil.example" });
  expect(await refusal(elsewhere)).toEqual([400, "invalid_grant"]);
});

test("33. a refresh token is replaced; the old one ends the family when it comes again after 30 s", async () => {
  let time = 1_000_000;
  const { signedIn, refresh, works } = await startOAuth({ now: () => time });
  const { client_id, access_token, refresh_token } = await signedIn();
  const second = await tokensOf(await refresh(client_id, refresh_token));
  expect(second.refresh_token).not.toBe(refresh_token);
  expect([await works(access_token), await works(second.access_token)]).toEqual([true, true]);
  time += 30_000;
  expect(await refusal(await refresh(client_id, refresh_token))).toEqual([400, "invalid_grant"]);
  expect(await works(second.access_token)).toBe(false);
  expect(await refusal(await refresh(client_id, second.refresh_token))).toEqual([400, "invalid_grant"]);
});

test("33b. two refreshes at once have one answer, also the later of them for 30 s; both go on with it", async () => {
  let time = 1_000_000;
  const { signedIn, registered, refresh, works } = await startOAuth({ now: () => time });
  const { client_id, refresh_token } = await signedIn();
  const [one, two] = await Promise.all(
    [0, 1].map(async () => tokensOf(await refresh(client_id, refresh_token))),
  );
  expect(two).toEqual(one);
  time += 29_999;
  const late = await tokensOf(await refresh(client_id, refresh_token));
  expect(late).toEqual({ ...one, expires_in: 3570 });
  const next = await tokensOf(await refresh(client_id, late.refresh_token));
  expect([await works(late.access_token), await works(next.access_token)]).toEqual([true, true]);
  expect(await refusal(await refresh(client_id, late.refresh_token, { scope: "read" }))).toEqual([
    400,
    "invalid_grant",
  ]);
  expect(await works(next.access_token)).toBe(true);
  expect(await refusal(await refresh((await registered()).client_id, late.refresh_token))).toEqual([
    400,
    "invalid_grant",
  ]);
  expect(await works(next.access_token)).toBe(false);
});

test("34. a refresh token of one client does not serve another", async () => {
  const { refresh_token } = await service.signedIn();
  const { client_id } = await service.registered();
  expect(await refusal(await service.refresh(client_id, refresh_token))).toEqual([400, "invalid_grant"]);
});

test("35. scopes can be narrowed when refreshing, but not widened", async () => {
  const { client_id, refresh_token } = await service.signedIn();
  const narrow = await tokensOf(await service.refresh(client_id, refresh_token, { scope: "read" }));
  expect(narrow.scope).toBe("read");
  const full = await tokensOf(await service.refresh(client_id, narrow.refresh_token));
  expect(full.scope).toBe("read dispatch");
  const reading = await service.signedIn({ scope: "read" });
  const wide = await service.refresh(reading.client_id, reading.refresh_token, { scope: "read dispatch" });
  expect(await refusal(wide)).toEqual([400, "invalid_scope"]);
});

test("36. a token is good for the resource that it was asked for only", async () => {
  const statusAt = async (path: string, token: string) => (await service.rpc(token, "ping", {}, path)).status;
  const mcp = await service.signedIn({ resource: `${issuer}/mcp` });
  expect(await statusAt("/mcp", mcp.access_token)).toBe(200);
  expect(await statusAt("/messages", mcp.access_token)).toBe(401);
  const sse = await service.signedIn({ resource: `${issuer}/sse` });
  expect(await statusAt("/mcp", sse.access_token)).toBe(401);
  // There is no such session, but the caller may ask.
  expect(await statusAt("/messages", sse.access_token)).toBe(404);
  const both = await service.signedIn({ resource: `${issuer}/` });
  expect(await statusAt("/mcp", both.access_token)).toBe(200);
  expect(await statusAt("/messages", both.access_token)).toBe(404);
});

test("37. the resource can be narrowed at /token, but not changed", async () => {
  const { client_id } = await service.registered();
  const narrowed = await service.redeem(client_id, await service.codeFor(client_id), {
    resource: `${issuer}/sse`,
  });
  expect(await service.works((await tokensOf(narrowed)).access_token)).toBe(false);
  const code = await service.codeFor(client_id, { resource: `${issuer}/mcp` });
  const changed = await service.redeem(client_id, code, { resource: `${issuer}/sse` });
  expect(await refusal(changed)).toEqual([400, "invalid_target"]);
});

test("38. code, access token and refresh token expire after 300 s, an hour and 30 days", async () => {
  let time = 1_000_000;
  const later = await startOAuth({ now: () => time });
  const { client_id } = await later.registered();
  const early = await later.codeFor(client_id);
  time += 299_999;
  const { access_token, refresh_token } = await tokensOf(await later.redeem(client_id, early));
  const late = await later.codeFor(client_id);
  time += 300_000;
  expect(await refusal(await later.redeem(client_id, late))).toEqual([400, "invalid_grant"]);
  time += 3_600_000 - 300_001;
  expect(await later.works(access_token)).toBe(true);
  time += 1;
  expect(await later.works(access_token)).toBe(false);
  time += 30 * 86_400_000 - 3_600_001;
  const second = await tokensOf(await later.refresh(client_id, refresh_token));
  time += 30 * 86_400_000;
  expect(await refusal(await later.refresh(client_id, second.refresh_token))).toEqual([400, "invalid_grant"]);
});

test("39. an unknown client and a wrong, missing or doubled secret are refused", async () => {
  expect(await refusal(await service.redeem("nobody", "code"))).toEqual([401, "invalid_client"]);
  const { client_id, client_secret = "" } = await service.registered({
    token_endpoint_auth_method: "client_secret_post",
  });
  const code = await service.codeFor(client_id);
  expect(await refusal(await service.redeem(client_id, code))).toEqual([401, "invalid_client"]);
  expect(await refusal(await service.redeem(client_id, code, { client_secret: "wrong" }))).toEqual([
    401,
    "invalid_client",
  ]);
  const basic = (secret: string) => `Basic ${Buffer.from(`${client_id}:${secret}`).toString("base64")}`;
  const wrong = await service.form("/token", {}, { authorization: basic("wrong") });
  expect(wrong.headers.get("www-authenticate")).toMatch(/^Basic /);
  const twice = await service.form("/token", { client_secret }, { authorization: basic(client_secret) });
  expect(await refusal(twice)).toEqual([400, "invalid_request"]);
  expect((await service.redeem(client_id, code, { client_secret })).status).toBe(200);
});

test("40. other grant types, bodies that are no form, repeated fields and huge bodies are refused", async () => {
  const { client_id } = await service.registered();
  const password = await service.form("/token", { grant_type: "password", client_id });
  expect(await refusal(password)).toEqual([400, "unsupported_grant_type"]);
  const headers = { "content-type": "application/json" };
  expect(await refusal(await service.at("/token", { method: "POST", headers, body: "{}" }))).toEqual([
    400,
    "invalid_request",
  ]);
  const twice: [string, string][] = [
    ["client_id", client_id],
    ["code", "a"],
    ["code", "b"],
  ];
  expect(await refusal(await service.form("/token", twice))).toEqual([400, "invalid_request"]);
  const huge = await service.form("/token", { client_id, code: "x".repeat(40_000) });
  expect(await refusal(huge)).toEqual([413, "invalid_request"]);
});

test("41. revoking a token ends its family and no other; an unknown token is no error, another client's is", async () => {
  const [one, two, three] = [await service.signedIn(), await service.signedIn(), await service.signedIn()];
  const revoke = ({ client_id }: { client_id: string }, token: string) =>
    service.form("/revoke", { client_id, token });
  expect((await revoke(one, one.access_token)).status).toBe(200);
  expect(await refusal(await service.refresh(one.client_id, one.refresh_token))).toEqual([
    400,
    "invalid_grant",
  ]);
  expect((await revoke(two, two.refresh_token)).status).toBe(200);
  expect(await service.works(two.access_token)).toBe(false);
  expect((await revoke(one, "nonsense")).status).toBe(200);
  expect(await refusal(await revoke(one, three.access_token))).toEqual([400, "invalid_grant"]);
  expect(await service.works(three.access_token)).toBe(true);
  expect(await refusal(await service.form("/revoke", { token: "x" }))).toEqual([401, "invalid_client"]);
});

test("42. a call beyond the token's scopes is answered with 403 and the scopes to ask for", async () => {
  const { access_token } = await service.signedIn({ scope: "read" });
  const call = { name: "dispatch_task", arguments: { task_description: "x" } };
  const response = await service.rpc(access_token, "tools/call", call);
  expect(response.status).toBe(403);
  expect(response.headers.get("www-authenticate")).toBe(
    `Bearer error="insufficient_scope", resource_metadata="${issuer}/.well-known/oauth-protected-resource/mcp", scope="read dispatch"`,
  );
  const state = { name: "get_dispatch_job", arguments: { job_id: "x" } };
  expect((await service.rpc(access_token, "tools/call", state)).status).toBe(403);
  const full = await service.signedIn();
  const sse = await service.signedIn({ scope: "read", resource: `${issuer}/sse` });
  const { body } = await service.at("/sse", { headers: { authorization: `Bearer ${sse.access_token}` } });
  const { value } = (await body?.getReader().read()) ?? {};
  const path = /^data: (.+)$/m.exec(new TextDecoder().decode(value))?.[1] ?? "";
  expect((await service.rpc(sse.access_token, "tools/call", call, path)).status).toBe(403);
  expect((await service.rpc(sse.access_token, "tools/list", {}, path)).status).toBe(202);
  expect((await service.rpc(full.access_token, "tools/call", call)).status).toBe(200);
  expect((await service.rpc(access_token, "tools/call", { name: "list_sessions" })).status).toBe(200);
});

test("43. keys are accepted beside tokens: by header, bearer and query; a token in the query is not", async () => {
  const { access_token } = await service.signedIn();
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const status = async (headers: Record<string, string>, query = "") => {
    const common = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    return (await service.at(`/mcp${query}`, { method: "POST", body, headers: { ...common, ...headers } }))
      .status;
  };
  expect(await status({ "x-api-key": key })).toBe(200);
  expect(await status({ authorization: `Bearer ${key}` })).toBe(200);
  expect(await status({}, `?api_key=${key}`)).toBe(200);
  expect(await status({ "x-api-key": key, authorization: `Bearer ${access_token}` })).toBe(200);
  expect(await status({ "x-api-key": "wrong", authorization: `Bearer ${access_token}` })).toBe(200);
  expect(await status({ "x-api-key": "wrong", authorization: "Bearer wrong" })).toBe(401);
  expect(await status({}, `?api_key=${access_token}`)).toBe(401);
  expect(await status({}, `?access_token=${access_token}`)).toBe(401);
});

test("44. no key, secret, code or token is in the log, which tells who signed in, was refused and left", async () => {
  const { at, form, signedIn, refresh, lines } = await startOAuth();
  const client = await signedIn({}, { token_endpoint_auth_method: "client_secret_post" });
  expect(client.access_token).toBeUndefined();
  const open = await signedIn();
  const next = await tokensOf(await refresh(open.client_id, open.refresh_token));
  await refresh("nobody", open.refresh_token);
  await refresh(open.client_id, `${next.refresh_token}x`);
  const last = await signedIn();
  await form("/revoke", { client_id: last.client_id, token: last.access_token });
  await at("/mcp", { headers: { authorization: `Bearer ${last.access_token}` } });
  const log = lines.join("\n");
  for (const text of ["registered", "permitted", "tokens were given", "tokens were refused", "revoked"])
    expect(log).toContain(text);
  for (const secret of [key, open.code, open.access_token, open.refresh_token, next.refresh_token, last.code])
    expect(log).not.toContain(secret);
});
