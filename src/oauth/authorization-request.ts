import type { Client, Clients } from "./clients.ts";
import type { Grants, Rights } from "./grants.ts";
import type { Places } from "./metadata.ts";
import { OAuthError } from "./oauth-error.ts";
import { parametersOf, type Parameters } from "./parameters.ts";
import { mayRedirect } from "./redirect-uris.ts";

/** The rights that a client asks a user for. */
export type Asked = Rights & {
  client: Client;
  redirect_uri: string;
  challenge: string;
  state: string | undefined;
};

type Options = {
  clients: Clients;
  grants: Grants;
  places: Places;
  scopes: readonly string[];
  allowedRedirects: readonly string[];
};

/** Where the user goes with the answer, good or bad. */
export type Way = { redirect_uri: string; state: string | undefined };

/**
 * Reads a request to /authorize. `way` is null as long as it is not certain that the client may have the answer: then the
 * user sees the fault, and nobody is redirected.
 */
export const readAuthorization = (
  url: string,
  options: Options,
): { asked: Asked } | { fault: OAuthError; way: Way | null } => {
  let way: Way | null = null;
  try {
    const parameters = parametersOf(new URL(url).searchParams);
    const client = options.clients.find(parameters.get("client_id") ?? "");
    if (client === undefined)
      throw new OAuthError("invalid_client", "This application is not registered here; let it sign in anew");
    const redirect_uri = redirectOf(parameters, client, options.allowedRedirects);
    const state = parameters.get("state");
    // Anybody can register: until a user has permitted the client, its links lead nowhere else.
    if (options.clients.isLocked || options.grants.has(client)) way = { redirect_uri, state };
    return { asked: { client, redirect_uri, state, ...whatIsAsked(parameters, options) } };
  } catch (fault) {
    if (fault instanceof OAuthError) return { fault, way };
    throw fault;
  }
};

const redirectOf = (parameters: Parameters, client: Client, allowed: readonly string[]): string => {
  const registered = client.redirect_uris;
  const uri = parameters.get("redirect_uri") ?? (registered.length === 1 ? registered[0] : undefined);
  if (uri === undefined) throw new OAuthError("invalid_request", "redirect_uri is missing");
  if (!mayRedirect(uri, { registered, allowed }))
    throw new OAuthError("invalid_request", "redirect_uri is not one that this application has registered");
  return uri;
};

const whatIsAsked = (parameters: Parameters, { places, scopes }: Options): Rights & { challenge: string } => {
  if (parameters.get("response_type") !== "code")
    throw new OAuthError("unsupported_response_type", "response_type must be code");
  if ((parameters.get("response_mode") ?? "query") !== "query")
    throw new OAuthError("invalid_request", "response_mode must be query");
  const challenge = parameters.get("code_challenge") ?? "";
  if (parameters.get("code_challenge_method") !== "S256" || !/^[\w-]{43}$/.test(challenge))
    throw new OAuthError(
      "invalid_request",
      "PKCE is required: code_challenge, with code_challenge_method=S256",
    );
  return {
    challenge,
    scopes: scopesOf(parameters, scopes) ?? [...scopes],
    resources: resourcesOf(parameters, places) ?? Object.values(places.resources),
  };
};

/**
 * The asked scopes that exist. Undefined: the client leaves it to the server, or knows none of its scopes (RFC 6749, 3.3,
 * lets the server choose then).
 */
export const scopesOf = (parameters: Parameters, scopes: readonly string[]): string[] | undefined => {
  const asked = parameters.get("scope")?.split(/ +/) ?? [];
  const known = scopes.filter((scope) => asked.includes(scope));
  return known.length === 0 ? undefined : known;
};

/** RFC 8707. The issuer stands for all resources. Undefined: the client names none. */
export const resourcesOf = ({ resources }: Parameters, places: Places): string[] | undefined => {
  if (resources.length === 0) return undefined;
  const all = Object.values(places.resources);
  const named = resources.flatMap((resource) => {
    const plain = resource.replace(/\/$/, "");
    if (plain === places.base) return all;
    const known = all.find((one) => one === plain);
    if (known === undefined)
      throw new OAuthError(
        "invalid_target",
        `${resource.slice(0, 200)} is not a resource of this service; there are ${all.join(" and ")}`,
      );
    return [known];
  });
  return [...new Set(named)];
};
