import { json, type Reply, type Route } from "../http/route.ts";
import type { Log } from "../lib/log.ts";
import { resourcesOf, scopesOf } from "./authorization-request.ts";
import { loggedId, type Client, type Clients } from "./clients.ts";
import { lifetimes, type Grants } from "./grants.ts";
import type { Places } from "./metadata.ts";
import { OAuthError, oauthRoute } from "./oauth-error.ts";
import { readForm, required, type Parameters } from "./parameters.ts";

type Options = {
  places: Places;
  scopes: readonly string[];
  clients: Clients;
  grants: Grants;
  log: Log;
  now: () => number;
};

export const tokenRoutes = ({ places, scopes, clients, grants, log, now }: Options): Route[] => {
  const given = (form: Parameters, client: Client) => {
    const [asked, resources] = [scopesOf(form, scopes), resourcesOf(form, places)];
    const narrowed = { client, ...(asked && { scopes: asked }), ...(resources && { resources }) };
    const kind = required(form, "grant_type");
    if (kind === "refresh_token") return grants.refresh(required(form, "refresh_token"), narrowed);
    if (kind !== "authorization_code")
      throw new OAuthError(
        "unsupported_grant_type",
        "grant_type must be authorization_code or refresh_token",
      );
    const [code, verifier] = [required(form, "code"), required(form, "code_verifier")];
    return grants.redeem(code, { ...narrowed, verifier, redirectUri: form.get("redirect_uri") });
  };

  const token = (form: Parameters, client: Client): Reply => {
    try {
      const { grant, scopes: granted, ...tokens } = given(form, client);
      log.info(
        { client: loggedId(client), principal: grant.key, scopes: granted },
        "OAuth: tokens were given",
      );
      const scope = granted.join(" ");
      return json(200, { token_type: "Bearer", expires_in: lifetimes.access, ...tokens, scope });
    } catch (error) {
      if (!(error instanceof OAuthError)) throw error;
      log.warn(
        { client: loggedId(client), code: error.oauthCode, why: error.message },
        "OAuth: tokens were refused",
      );
      throw error;
    }
  };

  const revoke = (form: Parameters, client: Client): Reply => {
    const grant = grants.revoke(required(form, "token"), client);
    if (grant !== null)
      log.info({ client: loggedId(client), principal: grant.key }, "OAuth: a sign-in was revoked");
    return json(200, {});
  };

  const ofClient = (path: string, answer: (form: Parameters, client: Client) => Reply): Route =>
    oauthRoute("post", path, async ({ request }) => {
      const form = await readForm(request);
      return answer(form, clients.authenticate(request, form));
    });

  const register = oauthRoute("post", "/register", async ({ request }) => {
    const answer = await clients.register(request, now());
    log.info({ client: loggedId(answer), name: answer.client_name }, "OAuth: a client has registered");
    return json(201, answer);
  });

  return [ofClient("/token", token), ofClient("/revoke", revoke), register];
};
