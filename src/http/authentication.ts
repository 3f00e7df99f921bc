import { hash, timingSafeEqual } from "node:crypto";
import { ServiceError, unauthorizedBody } from "../contract/errors.ts";

/** Who asks without a valid key where keys are set, at a route that answers without one. */
export const stranger = "stranger";

/**
 * Tells who asks. Returns the caller's principal (a digest of the key) or throws 401. With no keys configured
 * everyone is `open`.
 *
 * One key counts: `X-Api-Key`, else `Authorization: Bearer`, else `?api_key=`. A key sent in a later place is not
 * looked at, so that a client library that insists on some bearer token can still be used with `X-Api-Key`.
 */
export const createAuthentication = (keys: readonly string[]): ((request: Request) => string) => {
  if (keys.length === 0) return () => "open";
  const known = keys.map((key) => ({ digest: digest(Buffer.from(key)), principal: principalOf(key) }));
  return (request) => {
    const presented = presentedKey(request);
    if (presented !== undefined) {
      const offered = digest(presented);
      let principal: string | undefined;
      // All keys are compared, whichever fits: the time taken says nothing about them.
      for (const key of known) if (timingSafeEqual(key.digest, offered)) principal = key.principal;
      if (principal !== undefined) return principal;
    }
    throw new ServiceError("unauthorized", unauthorizedBody.error);
  };
};

const digest = (key: Uint8Array): Buffer => hash("sha256", key, "buffer");

const principalOf = (key: string): string => hash("sha256", `principal:${key}`).slice(0, 16);

const presentedKey = ({ headers, url }: Request): Buffer | undefined => {
  // Header values are bytes, read as latin1: back to bytes, so that a key beyond ASCII fits too.
  const header = headers.get("x-api-key") || bearer(headers.get("authorization"));
  if (header) return Buffer.from(header, "latin1");
  const question = url.indexOf("?");
  if (question === -1) return undefined;
  const [key, ...more] = new URLSearchParams(url.slice(question)).getAll("api_key");
  // A key given twice is no key: which of them counts must not be a matter of the reader.
  return key && more.length === 0 ? Buffer.from(key) : undefined;
};

const bearer = (authorization: string | null): string | undefined =>
  /^bearer +(.+)$/i.exec(authorization ?? "")?.[1];
