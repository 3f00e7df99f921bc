import { HostError } from "./host-error.ts";
import type { State, Token } from "./state.ts";

/**
 * The caller; null without an Authorization header.
 * @throws HostError 401 when there is one that is not good
 */
export const authenticate = (state: State, header: string | undefined): Token | null => {
  if (header === undefined) return null;
  const token = state.tokens.get(credential(header));
  if (!token || (token.expiresAt !== null && token.expiresAt <= Date.now()))
    throw new HostError(401, "Bad credentials");
  return token;
};

/** The secret of `token X`, `Bearer X`, or of the password of `Basic user:X`. */
const credential = (header: string): string => {
  const [scheme = "", value = ""] = header.split(" ");
  if (scheme.toLowerCase() !== "basic") return value;
  const pair = Buffer.from(value, "base64").toString();
  return pair.slice(pair.indexOf(":") + 1);
};
