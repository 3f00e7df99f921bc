import { hash, randomBytes, timingSafeEqual } from "node:crypto";

/** 256 bits that nobody can guess. */
export const newSecret = (): string => randomBytes(32).toString("base64url");

/** What is kept of a secret. */
export const digestOf = (secret: string): string => hash("sha256", secret, "base64url");

export const isDigestOf = (secret: string, digest: string): boolean => {
  const [a, b] = [Buffer.from(digestOf(secret)), Buffer.from(digest)];
  return a.length === b.length && timingSafeEqual(a, b);
};
