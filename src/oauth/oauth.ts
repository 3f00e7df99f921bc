import type { BridgeSettings } from "../config/bridge-variables.ts";
import { ConfigError } from "../config/config-error.ts";
import {
  bearer,
  createAuthentication,
  createKeyCheck,
  principalOf,
  type Authenticate,
  type Challenge,
} from "../http/access.ts";
import type { Route } from "../http/route.ts";
import type { Log } from "../lib/log.ts";
import { authorizeRoutes } from "./authorize.ts";
import { createClients } from "./clients.ts";
import { createGrants } from "./grants.ts";
import { metadataRoutes, placesOf, resourceMetadataUrl, type Places } from "./metadata.ts";
import { redirectFault } from "./redirect-uris.ts";
import { tokenRoutes } from "./token-routes.ts";

export type OAuth = {
  routes: Route[];
  /** By key or by token. */
  authenticate: Authenticate;
  challenge: Challenge;
  /** The issuer's path, without a slash at its end. */
  path: string;
};

type Options = {
  settings: Pick<
    BridgeSettings,
    "oauthClientId" | "oauthClientSecret" | "oauthRedirectUris" | "oauthScopes"
  > & { oauthIssuer: string };
  /** Keys of the service; empty: it is open. */
  keys: readonly string[];
  log: Log;
  /** Time in ms. */
  now?: () => number;
};

/**
 * An OAuth 2.1 authorization server for this service's own resources, /mcp and /sse.
 * @throws ConfigError
 */
export const createOAuth = ({ settings, keys, log, now = Date.now }: Options): OAuth => {
  checkRedirects(settings);
  const { oauthScopes: scopes, oauthRedirectUris: allowedRedirects } = settings;
  const places = placesOf(settings.oauthIssuer);
  const clients = createClients(settings);
  const grants = createGrants(now);
  const parts = { places, scopes, clients, grants, log };
  const metadata = metadataRoutes({ places, scopes, isLocked: clients.isLocked });
  const byKey = createAuthentication(keys);
  const permitting = new Set(keys.length === 0 ? ["open"] : keys.map(principalOf));

  return {
    path: places.path,
    routes: [
      ...metadata,
      ...tokenRoutes({ ...parts, now }),
      ...authorizeRoutes({
        ...parts,
        allowedRedirects,
        principalOfKey: createKeyCheck(keys),
        isKeyed: keys.length > 0,
      }),
    ],
    authenticate: (request) => {
      const holder = byKey(request);
      if (holder !== null && keys.length > 0) return holder;
      const token = bearer(request.headers.get("authorization"));
      const rights = token === undefined ? null : grants.rightsOf(token);
      if (rights === null) return holder;
      const { client_id, key, scopes: granted, resources } = rights;
      const resource = resourceAt(request.url, places);
      // The key may have been withdrawn, or the client or the scope, since the user permitted it.
      if (!permitting.has(key) || clients.find(client_id) === undefined) return null;
      if (resource === null || !resources.includes(resource)) return null;
      const principal = principalOf(`${client_id}:${key}`);
      return { principal, scopes: granted.filter((scope) => scopes.includes(scope)) };
    },
    challenge: ({ url, headers }, missing) => {
      const parts = [
        `resource_metadata="${resourceMetadataUrl(resourceAt(url, places) ?? places.resources.mcp)}"`,
      ];
      if (missing !== undefined) parts.unshift('error="insufficient_scope"');
      else if (bearer(headers.get("authorization")) !== undefined) parts.unshift('error="invalid_token"');
      return `Bearer ${[...parts, `scope="${missing ?? scopes.join(" ")}"`].join(", ")}`;
    },
  };
};

const resourceAt = (url: string, { resources, path }: Places): string | null => {
  const at = new URL(url).pathname.replaceAll(/\/{2,}/g, "/").replace(/\/$/, "");
  if (at === "/mcp") return resources.mcp;
  return ["/sse", "/messages", `${path}/messages`].includes(at) ? resources.sse : null;
};

const checkRedirects = ({ oauthClientId, oauthRedirectUris }: Options["settings"]): void => {
  const faults = oauthRedirectUris.flatMap((uri) => {
    const fault = redirectFault(uri);
    return fault === null ? [] : [`OAUTH_ALLOWED_REDIRECT_URIS names ${uri}, which ${fault}`];
  });
  if (oauthClientId !== null && oauthRedirectUris.length === 0)
    faults.push(
      "OAUTH_CLIENT_ID is set without OAUTH_ALLOWED_REDIRECT_URIS; name where that client may send its users, as in https://claude.ai/api/mcp/auth_callback",
    );
  if (faults.length > 0) throw new ConfigError(faults);
};
