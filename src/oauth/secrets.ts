import { createHmac, hash, randomBytes, timingSafeEqual } from "node:crypto";

/** 256 bits that nobody can guess. */
export const newSecret = (): string => randomBytes(32).toString("base64url");

/** The stored form of a secret. */
export const digestOf = (secret: string): string => hash("sha256", secret, "base64url");

export const isDigestOf = (secret: string, digest: string): boolean => isSame(digestOf(secret), digest);

/** A seal of `text` that only a holder of `key` can make. */
export const sealOf = (key: string, text: string): string =>
  createHmac("sha256", key).update(text).digest("base64url");

/** Takes the same time whatever differs. */
export const isSame = (one: string, other: string): boolean => {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
};
