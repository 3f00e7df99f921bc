import type { Client } from "./clients.ts";
import { OAuthError } from "./oauth-error.ts";
import { digestOf, isDigestOf, newSecret } from "./secrets.ts";

/** The rights of a token, and where they hold. */
export type Rights = { scopes: string[]; resources: string[] };

type Token = { digest: string; expires_at: number };

type Tokens = { access_token: string; refresh_token: string; scopes: readonly string[] };

/** The rights that a user gave a client, with all codes and tokens made from them: its family. */
type Grant = Rights & {
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

export const lifetimes = { code: 300, access: 3600, refresh: 30 * 86_400 } as const;

type Narrowed = { scopes?: readonly string[]; resources?: readonly string[] };

/**
 * Codes and tokens, in memory only. A code gives tokens once. A refresh token gives new ones once; access tokens live on until they expire.
 * A code or refresh token that comes a second time has been stolen by somebody: its whole family ends. Only within 30 s a
 * refresh token has the same answer again: two processes of one user refresh at once, or an answer was lost.
 *
 * A token is `{id of its grant}.{secret}`. An older refresh token is known as such by its grant, so that only the newest is
 * kept.
 */
export const createGrants = (now: () => number) => {
  const grants = new Map<string, Grant>();

  const end = (grant: Grant): void => void grants.delete(grant.id);

  const isOver = ({ code, refresh }: Grant): boolean => (refresh ?? code).expires_at <= now();

  const forgetExpired = (): void => grants.forEach((grant) => isOver(grant) && end(grant));

  const found = (token: string): Grant | undefined => grants.get(token.split(".", 1)[0] ?? "");

  const issue = (grant: Grant, narrowed: Narrowed): Tokens => {
    const { scopes = grant.scopes, resources = grant.resources } = narrowed;
    checkWithin("invalid_scope", scopes, grant.scopes);
    checkWithin("invalid_target", resources, grant.resources);
    const [access, refresh] = [`${grant.id}.${newSecret()}`, `${grant.id}.${newSecret()}`];
    const alive = grant.access.filter(({ expires_at }) => expires_at > now()).slice(1 - maxAccess);
    const rights: Rights = { scopes: [...scopes], resources: [...resources] };
    grant.access = [...alive, { digest: digestOf(access), expires_at: after(lifetimes.access), ...rights }];
    grant.refresh = { digest: digestOf(refresh), expires_at: after(lifetimes.refresh) };
    return { access_token: access, refresh_token: refresh, scopes };
  };

  const after = (seconds: number): number => now() + seconds * 1000;

  return {
    /** Begins a family. @returns its code */
    begin: (asked: Rights & Pick<Grant, "client_id" | "key" | "redirect_uri" | "challenge">): string => {
      forgetExpired();
      const [oldest] = grants.values();
      if (grants.size >= maxGrants && oldest !== undefined) end(oldest);
      const code = newSecret();
      const id = newSecret();
      const token = { digest: digestOf(code), expires_at: after(lifetimes.code), used: false };
      grants.set(id, { id, ...asked, code: token, refresh: null, replaced: [], access: [] });
      return code;
    },

    redeem: (
      code: string,
      { client, verifier, redirectUri, ...narrowed }: Redemption & Narrowed,
    ): Tokens & { grant: Grant } => {
      const digest = digestOf(code);
      const grant = [...grants.values()].find((one) => one.code.digest === digest);
      if (grant === undefined) throw new OAuthError("invalid_grant", "The code is not valid; sign in again");
      const fault = codeFault(grant, { client, verifier, redirectUri });
      if (fault !== null || grant.code.expires_at <= now()) {
        // Somebody has the code who should not have it.
        end(grant);
        throw new OAuthError("invalid_grant", `${fault ?? "The code has expired"}; sign in again`);
      }
      const tokens = issue(grant, narrowed);
      grant.code.used = true;
      return { ...tokens, grant };
    },

    refresh: (
      token: string,
      { client, ...narrowed }: { client: Client } & Narrowed,
    ): Tokens & { grant: Grant; expires_in?: number } => {
      const grant = found(token);
      const { refresh = null } = grant ?? {};
      if (grant === undefined || refresh === null || isOver(grant))
        throw new OAuthError("invalid_grant", "The refresh token is not valid; sign in again");
      const asked = JSON.stringify(narrowed);
      const isOwn = grant.client_id === client.client_id;
      grant.replaced = grant.replaced.filter(({ at }) => now() - at < graceMs);
      const again = grant.replaced.find(({ digest }) => isOwn && isDigestOf(token, digest));
      if (again !== undefined && again.asked !== asked)
        throw new OAuthError("invalid_grant", "The refresh token was just replaced; use the new one");
      if (again !== undefined) {
        const expires_in = lifetimes.access - Math.ceil((now() - again.at) / 1000);
        return { ...again.tokens, expires_in, grant };
      }
      if (!isOwn || !isDigestOf(token, refresh.digest)) {
        end(grant);
        throw new OAuthError(
          "invalid_grant",
          "The refresh token was used before or by another client; sign in again",
        );
      }
      const tokens = issue(grant, narrowed);
      grant.replaced = [...grant.replaced, { digest: refresh.digest, at: now(), asked, tokens }].slice(
        -maxAccess,
      );
      return { ...tokens, grant };
    },

    /** Ends the family of a token. @returns the family; null: the token is not known */
    revoke: (token: string, client: Client): Grant | null => {
      const grant = found(token);
      if (grant === undefined) return null;
      if (grant.client_id !== client.client_id)
        throw new OAuthError("invalid_grant", "The token is another client's");
      end(grant);
      return grant;
    },

    /** Whether a user has permitted this client something that still holds. */
    has: ({ client_id }: Client): boolean => grants.values().some((grant) => grant.client_id === client_id),

    /** The rights of an access token now. Null: none. */
    rightsOf: (token: string): (Rights & Pick<Grant, "client_id" | "key">) | null => {
      const grant = found(token);
      const access = grant?.access.find((one) => isDigestOf(token, one.digest) && one.expires_at > now());
      if (grant === undefined || access === undefined) return null;
      return { ...access, client_id: grant.client_id, key: grant.key };
    },
  };
};

const graceMs = 30_000;

export type Grants = ReturnType<typeof createGrants>;

/** Most access tokens of a family that are valid at a time, and most families. */
const maxAccess = 20;
const maxGrants = 10_000;

type Redemption = { client: Client; verifier: string; redirectUri: string | undefined };

const codeFault = (
  { code, challenge, client_id, redirect_uri }: Grant,
  { client, verifier, redirectUri }: Redemption,
): string | null => {
  if (code.used) return "The code was used before";
  if (client_id !== client.client_id) return "The code is another client's";
  if (redirectUri !== undefined && redirectUri !== redirect_uri)
    return "redirect_uri is not that of the code";
  const isVerifier = /^[\w.~-]{43,128}$/.test(verifier) && isDigestOf(verifier, challenge);
  return isVerifier ? null : "code_verifier does not fit the code";
};

const checkWithin = (error: string, asked: readonly string[], granted: readonly string[]): void => {
  const beyond = asked.filter((one) => !granted.includes(one));
  if (beyond.length > 0) throw new OAuthError(error, `${beyond.join(" ").slice(0, 200)} was not granted`);
};
