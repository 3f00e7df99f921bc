export type Client = {
  client_id: string;
  /** Null: a public client. */
  secret: string | null;
  client_name: string;
  redirect_uris: string[];
  issued_at: number;
  /** When a user last signed in with it, ms. */
  used_at: number;
  /** A user has permitted it once, or the settings name it. */
  confirmed: boolean;
};

/** What a token permits, and where. */
export type Rights = { scopes: string[]; resources: string[] };

type Token = { digest: string; expires_at: number };

export type Tokens = { access_token: string; refresh_token: string; scopes: readonly string[] };

/** What a user has permitted a client, with all codes and tokens that came of it: its family. */
export type Grant = Rights & {
  id: string;
  client_id: string;
  /** Principal of the key that permitted it. */
  key: string;
  redirect_uri: string;
  challenge: string;
  /** The code, kept after its use to notice a second one. */
  code: Token & { used: boolean };
  refresh: Token | null;
  /** Refresh tokens that were just replaced, each with what was asked and given for it. */
  replaced: { digest: string; at: number; asked: string; tokens: Tokens }[];
  access: (Token & Rights)[];
};

/** Clients and grants, in memory only. */
export type State = { clients: Map<string, Client>; grants: Map<string, Grant> };
