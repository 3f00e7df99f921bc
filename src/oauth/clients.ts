import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { BridgeSettings } from "../config/bridge-variables.ts";
import { bodyLimits, readJsonObjectBytes } from "../http/body.ts";
import { digestOf, isDigestOf, newSecret } from "./digest.ts";
import { OAuthError } from "./oauth-error.ts";
import type { Parameters } from "./parameters.ts";
import { redirectFault } from "./redirect-uris.ts";
import type { Client, State } from "./state.ts";

export const authMethods = ["client_secret_basic", "client_secret_post", "none"] as const;

/** What is read of a registration (RFC 7591); clients send more. */
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

type Options = {
  state: State;
  settings: Settings;
  now: () => number;
  /** Clients with a page that is open. */
  pendingClients: () => ReadonlyMap<string, number>;
};

/** The clients: those that have registered, or the one of the settings. */
export const createClients = ({ state: { clients, grants }, settings, now, pendingClients }: Options) => {
  const { oauthClientId, oauthClientSecret, oauthRedirectUris, oauthScopes } = settings;
  const locked: Client | null =
    oauthClientId === null
      ? null
      : {
          client_id: oauthClientId,
          secret: oauthClientSecret === null ? null : digestOf(oauthClientSecret),
          client_name: oauthClientId,
          redirect_uris: oauthRedirectUris,
          issued_at: 0,
          used_at: 0,
          confirmed: true,
        };

  const find = (id: string): Client | undefined => {
    if (locked === null) return clients.get(id);
    return id === locked.client_id ? locked : undefined;
  };

  /** Those that somebody has signed in with stay: the bound on grants is theirs. A page that is open comes last. */
  const makeRoom = (): void => {
    if (clients.size < maxUnused) return;
    const used = new Set(grants.values().map(({ client_id }) => client_id));
    const pending = pendingClients();
    let unused = 0;
    let first: { id: string; weight: number } | null = null;
    for (const { client_id: id, used_at } of clients.values()) {
      if (used.has(id)) continue;
      unused += 1;
      const weight = (pending.has(id) ? 1e15 : 0) + used_at;
      if (first === null || weight < first.weight) first = { id, weight };
    }
    if (unused >= maxUnused && first !== null) clients.delete(first.id);
  };

  return {
    isLocked: locked !== null,
    find,

    /** @returns the answer to the registration, in which the secret is for the only time */
    register: async (request: Request): Promise<{ client: Client; answer: Record<string, unknown> }> => {
      if (locked !== null)
        throw new OAuthError(
          "access_denied",
          "Clients cannot register here; ask the operator for a client id",
          403,
        );
      const { object } = await readJsonObjectBytes(request, { ...bodyLimits, bytes: 32_768, values: 1000 });
      const asked = checked(object, oauthRedirectUris);
      const { redirect_uris, client_name, token_endpoint_auth_method } = asked;
      const secret = token_endpoint_auth_method === "none" ? null : newSecret();
      makeRoom();
      const client: Client = {
        client_id: randomUUID(),
        secret: secret && digestOf(secret),
        client_name,
        redirect_uris,
        issued_at: Math.floor(now() / 1000),
        used_at: now(),
        confirmed: false,
      };
      clients.set(client.client_id, client);
      const answer = {
        client_id: client.client_id,
        client_id_issued_at: client.issued_at,
        ...(secret !== null && { client_secret: secret, client_secret_expires_at: 0 }),
        client_name,
        redirect_uris,
        token_endpoint_auth_method,
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        scope: oauthScopes.join(" "),
      };
      return { client, answer };
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

/** Anybody can register: clients that nobody has signed in with are soon forgotten. */
const maxUnused = 1000;

const checked = (object: object, allowed: readonly string[]): z.infer<typeof Registration> => {
  const { data, error } = Registration.safeParse(object);
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
