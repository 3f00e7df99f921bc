import { z } from "zod";
import type { BridgeSettings } from "../config/bridge-variables.ts";
import { readJsonObjectBytes } from "../http/body.ts";
import { lenient } from "../http/lenient.ts";
import { OAuthError } from "./oauth-error.ts";
import type { Parameters } from "./parameters.ts";
import { redirectFault } from "./redirect-uris.ts";
import { digestOf, isDigestOf, isSame, newSecret, sealOf } from "./secrets.ts";

export type Client = {
  client_id: string;
  /** Digest; null: a public client. */
  secret: string | null;
  client_name: string;
  redirect_uris: string[];
};

export const authMethods = ["client_secret_basic", "client_secret_post", "none"] as const;

/** The fields read of a registration (RFC 7591); clients send more. */
const Registration = z.object({
  redirect_uris: z
    .array(z.string().max(512))
    .min(1)
    .max(20)
    .refine((uris) => uris.join("").length <= 4096, "must have at most 4,096 characters together"),
  client_name: z.string().max(200).default(""),
  token_endpoint_auth_method: z.enum(authMethods).default("client_secret_basic"),
  grant_types: z.array(z.string()).default(["authorization_code", "refresh_token"]),
  response_types: z.array(z.string()).default(["code"]),
});

type Settings = Pick<
  BridgeSettings,
  "oauthClientId" | "oauthClientSecret" | "oauthRedirectUris" | "oauthScopes"
>;

/** Parts of an id: name, redirect URIs, whether the client is public, and a random text that makes each id another. */
const Registered = z.tuple([z.string(), z.array(z.string()), z.boolean(), z.string()]);

/**
 * The clients: those that have registered, or the one of the settings.
 *
 * Anybody can register, so nothing is kept of it: what a client has registered is in its id, sealed with a key that lives
 * as long as the process, and its secret is made of the id with the same key. No flood of registrations costs memory or
 * ends anybody's sign-in.
 */
export const createClients = (settings: Settings) => {
  const { oauthClientId, oauthClientSecret, oauthRedirectUris, oauthScopes } = settings;
  const sealKey = newSecret();
  const secretOf = (id: string): string => sealOf(sealKey, `secret of ${id}`);
  const locked: Client | null =
    oauthClientId === null
      ? null
      : {
          client_id: oauthClientId,
          secret: oauthClientSecret === null ? null : digestOf(oauthClientSecret),
          client_name: oauthClientId,
          redirect_uris: oauthRedirectUris,
        };

  const find = (id: string): Client | undefined => {
    if (locked !== null) return id === locked.client_id ? locked : undefined;
    const [seal = "", sealed = ""] = id.split(".", 2);
    if (!isSame(seal, sealOf(sealKey, sealed)) || id !== `${seal}.${sealed}`) return undefined;
    const text = Buffer.from(sealed, "base64url").toString();
    const [client_name, redirect_uris, isPublic] = Registered.parse(JSON.parse(text));
    return { client_id: id, secret: isPublic ? null : digestOf(secretOf(id)), client_name, redirect_uris };
  };

  return {
    isLocked: locked !== null,
    find,

    /** @returns the answer to the registration, in which the secret is for the only time */
    register: async (request: Request, now: number) => {
      if (locked !== null)
        throw new OAuthError(
          "access_denied",
          "Clients cannot register here; ask the operator for a client id",
          403,
        );
      const { object } = await readJsonObjectBytes(request, { bytes: 32_768, values: 1000 });
      const { client_name, redirect_uris, token_endpoint_auth_method } = checked(object, oauthRedirectUris);
      const isPublic = token_endpoint_auth_method === "none";
      const registered = JSON.stringify([client_name, redirect_uris, isPublic, newSecret()]);
      const sealed = Buffer.from(registered).toString("base64url");
      const client_id = `${sealOf(sealKey, sealed)}.${sealed}`;
      return {
        client_id,
        client_id_issued_at: Math.floor(now / 1000),
        ...(!isPublic && { client_secret: secretOf(client_id), client_secret_expires_at: 0 }),
        client_name,
        redirect_uris,
        token_endpoint_auth_method,
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        scope: oauthScopes.join(" "),
      };
    },

    /** The client that sends a request to /token or /revoke. @throws OAuthError invalid_client */
    authenticate: ({ headers }: Request, form: Parameters): Client => {
      const basic = /^basic +(.+)$/i.exec(headers.get("authorization") ?? "")?.[1];
      const [id, secret] =
        basic === undefined ? [form.get("client_id"), form.get("client_secret")] : pairOf(basic);
      if (basic !== undefined && form.get("client_secret") !== undefined)
        throw new OAuthError("invalid_request", "Authenticate in one way: by header or in the form");
      const client = find(id ?? "");
      if (client === undefined) throw new OAuthError("invalid_client", "This client is not registered", 401);
      if (client.secret !== null && !isDigestOf(secret ?? "", client.secret))
        throw new OAuthError("invalid_client", "The client's secret is wrong or missing", 401);
      return client;
    },
  };
};

export type Clients = ReturnType<typeof createClients>;

/** Names a client in the log: its id may have kilobytes. */
export const loggedId = ({ client_id }: Pick<Client, "client_id">): string => client_id.slice(0, 43);

const checked = (object: object, allowed: readonly string[]): z.infer<typeof Registration> => {
  const { data, error } = Registration.safeParse(lenient(Registration, object));
  if (error !== undefined) {
    const [{ path, message } = { path: [], message: "" }] = error.issues;
    throw new OAuthError(metadataError(path[0]), `${path.join(".")}: ${message}`);
  }
  for (const uri of data.redirect_uris) {
    const fault =
      redirectFault(uri) ?? (allowed.length > 0 && !allowed.includes(uri) ? "is not allowed here" : null);
    if (fault !== null) throw new OAuthError("invalid_redirect_uri", `${uri.slice(0, 200)} ${fault}`);
  }
  if (!data.grant_types.includes("authorization_code") || !data.response_types.includes("code"))
    throw new OAuthError(
      "invalid_client_metadata",
      "The grant type must be authorization_code, and the response type code",
    );
  return data;
};

const metadataError = (field: unknown): string =>
  field === "redirect_uris" ? "invalid_redirect_uri" : "invalid_client_metadata";

/** Id and secret, each encoded as in a form. */
const pairOf = (basic: string): (string | undefined)[] => {
  const [id = "", ...secret] = Buffer.from(basic, "base64").toString().split(":");
  try {
    return [id, secret.join(":")].map((part) => decodeURIComponent(part.replaceAll("+", " ")));
  } catch {
    return [];
  }
};
