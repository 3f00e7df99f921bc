import { expect, test } from "vitest";
import { issuer, startOAuth } from "./oauth.fixture.ts";

const documentAt = async (path: string, given: Awaited<ReturnType<typeof startOAuth>>) =>
  (await given.at(path)).json();

test("23. the server's metadata are exact", async () => {
  const service = await startOAuth();
  expect(await documentAt("/.well-known/oauth-authorization-server", service)).toEqual({
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    registration_endpoint: `${issuer}/register`,
    revocation_endpoint: `${issuer}/revoke`,
    scopes_supported: ["read", "dispatch"],
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    token_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
    revocation_endpoint_auth_methods_supported: ["client_secret_basic", "client_secret_post", "none"],
    code_challenge_methods_supported: ["S256"],
    authorization_response_iss_parameter_supported: true,
  });
});

test.each([
  ["", issuer],
  ["/mcp", `${issuer}/mcp`],
  ["/sse", `${issuer}/sse`],
])("24. the metadata of the resource at '%s' are exact", async (path, resource) => {
  expect(await documentAt(`/.well-known/oauth-protected-resource${path}`, await startOAuth())).toEqual({
    resource,
    authorization_servers: [issuer],
    scopes_supported: ["read", "dispatch"],
    bearer_methods_supported: ["header"],
  });
});

test("25. an issuer with a path is printed as it is, and its metadata are also at the inserted path", async () => {
  const oauthIssuer = "https://tools.example/bridge";
  const service = await startOAuth({ oauthIssuer });
  for (const path of ["", "/bridge"])
    expect(await documentAt(`/.well-known/oauth-authorization-server${path}`, service)).toMatchObject({
      issuer: oauthIssuer,
      token_endpoint: `${oauthIssuer}/token`,
    });
  expect(await documentAt("/.well-known/oauth-protected-resource/bridge/mcp", service)).toMatchObject({
    resource: `${oauthIssuer}/mcp`,
    authorization_servers: [oauthIssuer],
  });
  expect((await service.rpc(null)).headers.get("www-authenticate")).toContain(
    'resource_metadata="https://tools.example/.well-known/oauth-protected-resource/bridge/mcp"',
  );
});

test("25b. below a path /sse names the address to post to with it, and answers there and without it", async () => {
  const service = await startOAuth({ oauthIssuer: "https://tools.example/bridge", keys: [] });
  const stream = await service.at("/sse/");
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  const { value = "" } = (await reader?.read()) ?? {};
  const [, endpoint = ""] = /^data: (\/bridge\/messages\?sessionId=.*)$/m.exec(value) ?? [];
  for (const path of [endpoint, endpoint.replace("/bridge", "")])
    expect((await service.rpc(null, "tools/list", {}, path)).status).toBe(202);
  await reader?.cancel();
  const challenge = (await startOAuth({ oauthIssuer: "https://tools.example/bridge" }))
    .rpc(null, "tools/list", {}, "/bridge/messages")
    .then(({ headers }) => headers.get("www-authenticate"));
  expect(await challenge).toContain("/bridge/sse");
});

test("26. a slash at the issuer's end is kept, and is not doubled in addresses", async () => {
  const service = await startOAuth({ oauthIssuer: `${issuer}/` });
  expect(await documentAt("/.well-known/oauth-authorization-server", service)).toMatchObject({
    issuer: `${issuer}/`,
    token_endpoint: `${issuer}/token`,
  });
});

test("27. a caller without a token learns where to sign in, on /mcp and on /sse", async () => {
  const service = await startOAuth();
  const ask = async (path: string, headers: Record<string, string> = {}) => {
    const response = await service.at(path, { headers });
    expect([response.status, await response.json()]).toEqual([401, { error: "Invalid or missing API key" }]);
    return response.headers.get("www-authenticate");
  };
  const metadata = (path: string) =>
    `resource_metadata="${issuer}/.well-known/oauth-protected-resource${path}", scope="read dispatch"`;
  expect(await ask("/mcp")).toBe(`Bearer ${metadata("/mcp")}`);
  expect(await ask("/sse")).toBe(`Bearer ${metadata("/sse")}`);
  const headers = { authorization: "Bearer nonsense" };
  expect(await ask("/mcp", headers)).toBe(`Bearer error="invalid_token", ${metadata("/mcp")}`);
});

test.each(["0.0.0.0", "127.0.0.1"])(
  "28. pages of other origins can read metadata and use the endpoints, but not the consent page: on %s",
  async (host) => {
    const service = await startOAuth({ host });
    const headers = { origin: "https://inspector.example", "access-control-request-method": "POST" };
    const allowed = async (path: string, method: string) => {
      const { headers: answer } = await service.at(path, { method, headers });
      return answer.get("access-control-allow-origin");
    };
    for (const path of ["/token", "/register", "/revoke", "/.well-known/oauth-protected-resource/mcp"])
      expect(await allowed(path, "OPTIONS")).toBe(headers.origin);
    for (const path of ["/token", "/register", "/revoke"])
      expect(await allowed(path, "POST")).toBe(headers.origin);
    expect(await allowed("/.well-known/oauth-authorization-server", "GET")).toBe(headers.origin);
    expect(await allowed("/authorize", "GET")).toBeNull();
    const mcp = await service.at("/mcp", { method: "OPTIONS", headers });
    expect(mcp.status).toBe(host === "0.0.0.0" ? 204 : 403);
  },
);
