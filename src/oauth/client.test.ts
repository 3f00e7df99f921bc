import * as oauth from "oauth4webapi";
import { expect, test } from "vitest";
import { issuer, key, redirect, startOAuth } from "./oauth.fixture.ts";

/** A strict client of its own: it checks metadata, issuer, state and answers as the RFCs say. */
const signIn = async (authMethod: "none" | "client_secret_basic" | "client_secret_post") => {
  const service = await startOAuth();
  const options = {
    [oauth.customFetch]: (
      url: string,
      { body, headers, method }: oauth.CustomFetchOptions<string, unknown>,
    ) =>
      service.at(url, {
        method,
        headers,
        body: body instanceof URLSearchParams ? body : ((body as string) ?? null),
      }),
  };
  const resource = new URL(`${issuer}/mcp`);
  const discovered = await oauth.resourceDiscoveryRequest(resource, options);
  const { authorization_servers = [] } = await oauth.processResourceDiscoveryResponse(resource, discovered);
  const issuerUrl = new URL(authorization_servers[0] ?? "");
  const found = await oauth.discoveryRequest(issuerUrl, { algorithm: "oauth2", ...options });
  const as = await oauth.processDiscoveryResponse(issuerUrl, found);
  const registration = await oauth.dynamicClientRegistrationRequest(
    as,
    { redirect_uris: [redirect], token_endpoint_auth_method: authMethod, client_name: "A client" },
    options,
  );
  const client = await oauth.processDynamicClientRegistrationResponse(registration);
  const secret = client.client_secret as string;
  const auth =
    authMethod === "none"
      ? oauth.None()
      : authMethod === "client_secret_basic"
        ? oauth.ClientSecretBasic(secret)
        : oauth.ClientSecretPost(secret);
  const verifier = oauth.generateRandomCodeVerifier();
  const state = oauth.generateRandomState();
  const page = await service.authorize(client.client_id, {
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    resource: resource.href,
    scope: "read",
  });
  const { send } = await service.openPage(page);
  const location = new URL((await send({ key })).headers.get("location") ?? "");
  const parameters = oauth.validateAuthResponse(as, client, location, state);
  const answer = await oauth.authorizationCodeGrantRequest(
    as,
    client,
    auth,
    parameters,
    redirect,
    verifier,
    options,
  );
  const tokens = await oauth.processAuthorizationCodeResponse(as, client, answer);
  return { service, options, as, client, auth, tokens };
};

test.each(["none", "client_secret_basic", "client_secret_post"] as const)(
  "1. a strict client discovers, registers, signs in, refreshes and revokes (%s)",
  async (method) => {
    const { service, options, as, client, auth, tokens } = await signIn(method);
    expect(tokens).toMatchObject({ token_type: "bearer", expires_in: 3600, scope: "read" });
    expect(await service.works(tokens.access_token)).toBe(true);
    const refreshed = await oauth.processRefreshTokenResponse(
      as,
      client,
      await oauth.refreshTokenGrantRequest(as, client, auth, tokens.refresh_token ?? "", options),
    );
    expect(await service.works(refreshed.access_token)).toBe(true);
    await oauth.processRevocationResponse(
      await oauth.revocationRequest(as, client, auth, refreshed.access_token, options),
    );
    expect(await service.works(refreshed.access_token)).toBe(false);
    expect(await service.works(tokens.access_token)).toBe(false);
  },
);
