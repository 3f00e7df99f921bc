import { json, type Route } from "../http/route.ts";
import { authMethods } from "./clients.ts";
import { oauthRoute } from "./oauth-error.ts";

export type Places = {
  /** As configured, character by character: clients compare it. */
  issuer: string;
  /** The issuer without a slash at its end. */
  base: string;
  /** The path of `base`; empty: none. */
  path: string;
  resources: { mcp: string; sse: string };
};

export const placesOf = (issuer: string): Places => {
  const base = issuer.replace(/\/$/, "");
  const path = new URL(base).pathname.replace(/\/$/, "");
  return { issuer, base, path, resources: { mcp: `${base}/mcp`, sse: `${base}/sse` } };
};

/** Where a resource's metadata are (RFC 9728): the resource's path comes after the well-known one. */
export const resourceMetadataUrl = (resource: string): string => {
  const { origin, pathname } = new URL(resource);
  return `${origin}${protectedResource}${pathname.replace(/\/$/, "")}`;
};

const protectedResource = "/.well-known/oauth-protected-resource";
const authorizationServer = "/.well-known/oauth-authorization-server";

type Options = { places: Places; scopes: readonly string[]; isLocked: boolean };

/** RFC 8414 and RFC 9728. If the issuer has a path, they are also where it is inserted. */
export const metadataRoutes = ({ places, scopes, isLocked }: Options): Route[] => {
  const { issuer, base, path, resources } = places;
  const server = {
    issuer,
    authorization_endpoint: `${base}/authorize`,
    token_endpoint: `${base}/token`,
    ...(!isLocked && { registration_endpoint: `${base}/register` }),
    revocation_endpoint: `${base}/revoke`,
    scopes_supported: scopes,
    response_types_supported: ["code"],
    response_modes_supported: ["query"],
    grant_types_supported: ["authorization_code", "refresh_token"],
    token_endpoint_auth_methods_supported: authMethods,
    revocation_endpoint_auth_methods_supported: authMethods,
    code_challenge_methods_supported: ["S256"],
    authorization_response_iss_parameter_supported: true,
  };
  const resource = (name: string) => ({
    resource: name,
    authorization_servers: [issuer],
    scopes_supported: scopes,
    bearer_methods_supported: ["header"],
  });
  const documents = [
    { at: authorizationServer, under: "", document: server },
    { at: protectedResource, under: "", document: resource(issuer) },
    { at: protectedResource, under: "/mcp", document: resource(resources.mcp) },
    { at: protectedResource, under: "/sse", document: resource(resources.sse) },
  ];
  const prefixes = new Set(["", path]);
  return [...prefixes].flatMap((prefix) =>
    documents.map(({ at, under, document }) =>
      oauthRoute("get", `${at}${prefix}${under}`, () => json(200, document)),
    ),
  );
};
