import { generateKeyPairSync, randomBytes, verify } from "node:crypto";
import { z } from "zod";
import { HostError } from "./host-error.ts";
import { addToken, fullName, type State, type Token } from "./state.ts";

export type App = {
  appId: string;
  installationId: string;
  publicKey: string;
  /** PEM, for the program under test. */
  privateKey: string;
  /** Owner the app is installed on. */
  owner: string;
  access: Token["access"];
  /** Lifetime of the tokens, seconds. */
  tokenSeconds: number;
  /** What each minted token was asked for. */
  mints: { token: string; request: TokenRequest }[];
};

export const addApp = (
  state: State,
  {
    owner = "acme",
    access = "write",
    tokenSeconds = 3600,
  }: Partial<Pick<App, "owner" | "access" | "tokenSeconds">> = {},
): App => {
  const { publicKey, privateKey } = generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  });
  const number = state.apps.size + 1;
  const app: App = {
    appId: `${1000 + number}`,
    installationId: `${5000 + number}`,
    publicKey,
    privateKey,
    owner,
    access,
    tokenSeconds,
    mints: [],
  };
  state.apps.set(app.appId, app);
  return app;
};

const TokenRequest = z.object({
  repositories: z.array(z.string()).optional(),
  permissions: z.record(z.string(), z.string()).optional(),
});

type TokenRequest = z.infer<typeof TokenRequest>;

/** What POST /app/installations/{id}/access_tokens answers. @throws HostError 401, 404, 422 */
export const mintInstallationToken = (
  state: State,
  {
    installationId,
    authorization,
    body,
  }: { installationId: string; authorization: string | undefined; body: unknown },
) => {
  const app = checkAppJwt(state, authorization);
  if (app.installationId !== installationId) throw new HostError(404, "Not Found");
  const request = TokenRequest.parse(body ?? {});
  const names = request.repositories?.map((name) => fullName(app.owner, name)) ?? null;
  if (names?.some((name) => !state.repositories.has(name))) {
    throw new HostError(
      422,
      "There is at least one repository that does not exist or is not accessible to the parent installation.",
    );
  }
  const readOnly = app.access === "read" || request.permissions?.["contents"] === "read";
  const token = addToken(state, {
    value: `ghs_${randomBytes(18).toString("hex")}`,
    login: `app-${app.appId}[bot]`,
    access: readOnly ? "read" : "write",
    repositories:
      names ??
      [...state.repositories.keys()].filter((name) => name.startsWith(`${app.owner.toLowerCase()}/`)),
    expiresAt: Date.now() + app.tokenSeconds * 1000,
  });
  app.mints.push({ token: token.value, request });
  return {
    token: token.value,
    expires_at: new Date(token.expiresAt ?? 0).toISOString(),
    permissions: { contents: token.access, pull_requests: token.access, metadata: "read" },
    repository_selection: names ? "selected" : "all",
  };
};

const Claims = z.object({ iss: z.coerce.string(), iat: z.number(), exp: z.number() });

/** The app whose key signed the JWT, checked as strictly as the real host does. @throws HostError 401 */
export const checkAppJwt = (state: State, authorization: string | undefined): App => {
  const [header = "", payload = "", signature = ""] = (authorization ?? "")
    .replace(/^bearer /i, "")
    .split(".");
  const claims = Claims.safeParse(decode(payload));
  if (!claims.success) throw new HostError(401, "A JSON web token could not be decoded");
  const app = state.apps.get(claims.data.iss);
  if (!app) throw new HostError(401, "Integration not found");
  const algorithm = z.object({ alg: z.literal("RS256") }).safeParse(decode(header));
  const signed = Buffer.from(`${header}.${payload}`);
  if (
    !algorithm.success ||
    !verify("RSA-SHA256", signed, app.publicKey, Buffer.from(signature, "base64url"))
  ) {
    throw new HostError(401, "A JSON web token could not be decoded");
  }
  const now = Date.now() / 1000;
  if (claims.data.iat > now + 5)
    throw new HostError(
      401,
      "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
    );
  if (claims.data.exp <= now)
    throw new HostError(
      401,
      "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
    );
  if (claims.data.exp > now + 600 + 60)
    throw new HostError(401, "'Expiration time' claim ('exp') is too far in the future");
  return app;
};

const decode = (part: string): unknown => {
  try {
    return JSON.parse(Buffer.from(part, "base64url").toString());
  } catch {
    // Not JSON: the caller's schema refuses null with the host's own words.
    return null;
  }
};
