import { hash, randomUUID } from "node:crypto";
import { transcriptOperations } from "../contract/transcript.ts";
import { serveRoutes } from "../http/app.ts";
import { createWrongKeys } from "../http/wrong-keys.ts";
import type { Log } from "../lib/log.ts";
import { mcpRoutes } from "../mcp/routes.ts";
import { createServerFactory } from "../mcp/server.ts";
import { createOAuth } from "./oauth.ts";

export const issuer = "https://bridge.example";
export const key = "right-key-1";
export const redirect = "https://app.example/callback";
export const verifier = "v".repeat(43);
const challengeOf = (text: string): string => hash("sha256", text, "base64url");

type Options = Partial<Parameters<typeof createOAuth>[0]["settings"]> & {
  keys?: readonly string[];
  now?: () => number;
  host?: string;
};

/** The doors of the transcript service behind OAuth, without a network. */
export const startOAuth = async ({
  keys = [key],
  now = Date.now,
  host = "0.0.0.0",
  ...settings
}: Options = {}) => {
  const lines: string[] = [];
  const log = Object.fromEntries(
    ["debug", "info", "warn", "error"].map((level) => [
      level,
      (line: object, message: string) => void lines.push(JSON.stringify({ level, ...line, message })),
    ]),
  ) as unknown as Log;
  const oauth = createOAuth({
    settings: {
      oauthIssuer: issuer,
      oauthClientId: null,
      oauthClientSecret: null,
      oauthRedirectUris: [],
      oauthScopes: ["read", "dispatch"],
      ...settings,
    },
    keys,
    log,
    now,
  });
  const newServer = createServerFactory({
    program: {
      service: { name: "bridge", title: "test", version: "1" },
      instructions: "",
      operations: transcriptOperations,
      parts: { agent: false },
    },
    answer: async (name) => ({ body: { name }, code: null }),
  });
  const mcp = mcpRoutes({
    newServer: async () => newServer,
    operations: transcriptOperations,
    under: oauth.path,
    log,
    closing: new AbortController().signal,
  });
  const { hostname } = new URL(settings.oauthIssuer ?? issuer);
  const app = serveRoutes([...oauth.routes, ...mcp], {
    settings: { host, apiKeys: keys, publicHost: hostname, prefix: "BRIDGE" },
    authenticate: oauth.authenticate,
    challenge: oauth.challenge,
    wrongKeys: createWrongKeys(now),
    log,
    newRequestId: randomUUID,
  });
  const at = async (path: string, init?: RequestInit): Promise<Response> =>
    app.fetch(new Request(new URL(path, settings.oauthIssuer ?? issuer), init));
  return { ...actions(at), at, app, lines };
};

const actions = (at: (path: string, init?: RequestInit) => Promise<Response>) => {
  const form = (
    path: string,
    fields: Record<string, string> | [string, string][],
    headers = {},
  ): Promise<Response> => at(path, { method: "POST", body: new URLSearchParams(fields), headers });

  const register = (body: object): Promise<Response> =>
    at("/register", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });

  const registered = async (more: object = {}): Promise<Registered> =>
    (await (
      await register({ redirect_uris: [redirect], token_endpoint_auth_method: "none", ...more })
    ).json()) as Registered;

  const authorize = (client_id: string, more: Record<string, string | undefined> = {}): Promise<Response> => {
    const asked = {
      response_type: "code",
      client_id,
      redirect_uri: redirect,
      code_challenge: challengeOf(verifier),
      code_challenge_method: "S256",
      state: "the-state",
      ...more,
    };
    const given = Object.entries(asked).filter((pair): pair is [string, string] => pair[1] !== undefined);
    return at(`/authorize?${new URLSearchParams(given).toString()}`);
  };

  /** What a browser does with the page: it sends the form. */
  const openPage = async (response: Response, page = "/authorize") => {
    const html = await response.text();
    const action = /<form method="post" action="([^"]+)"/.exec(html)?.[1] ?? "";
    const named = action.replaceAll(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)));
    const { pathname, search } = new URL(named, issuer + page);
    const path = pathname + search;
    const send = (fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
      form(path, { key, decision: "allow", ...fields }, { origin: issuer, ...headers });
    return { html, send, path };
  };

  const codeFor = async (
    client_id: string,
    more: Record<string, string | undefined> = {},
  ): Promise<string> => {
    const { send } = await openPage(await authorize(client_id, more));
    return new URL((await send()).headers.get("location") ?? "").searchParams.get("code") ?? "";
  };

  const redeem = (client_id: string, code: string, more: Record<string, string> = {}): Promise<Response> =>
    form("/token", { grant_type: "authorization_code", client_id, code, code_verifier: verifier, ...more });

  const refresh = (client_id: string, refresh_token: string, more: Record<string, string> = {}) =>
    form("/token", { grant_type: "refresh_token", client_id, refresh_token, ...more });

  /** A client that is signed in. */
  const signedIn = async (more: Record<string, string | undefined> = {}, metadata: object = {}) => {
    const { client_id } = await registered(metadata);
    const code = await codeFor(client_id, more);
    return { client_id, code, ...((await (await redeem(client_id, code)).json()) as Tokens) };
  };

  const rpc = (token: string | null, method = "tools/list", params: object = {}, path = "/mcp") =>
    at(path, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(token !== null && { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
    });

  const works = async (token: string): Promise<boolean> => (await rpc(token)).status === 200;

  return { form, register, registered, authorize, openPage, codeFor, redeem, refresh, signedIn, rpc, works };
};

type Registered = { client_id: string; client_secret?: string };

export type Tokens = { access_token: string; refresh_token: string; scope: string; expires_in: number };

/** Status and OAuth's error. */
export const refusal = async (response: Response): Promise<[number, string]> => [
  response.status,
  ((await response.json()) as { error: string }).error,
];

/** What a redirect carries. */
export const carried = (response: Response): Record<string, string> =>
  Object.fromEntries(new URL(response.headers.get("location") ?? "none:").searchParams);
