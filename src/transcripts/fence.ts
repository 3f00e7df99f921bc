import { createHmac, randomBytes } from "node:crypto";

const secret = randomBytes(32);

/**
 * The text between two tags that nobody who wrote in it can know, so that it cannot end them. The same text has the same
 * tags: a request that is repeated stays the same.
 */
export const fenced = (name: string, text: string): string => {
  const tag = `${name}-${createHmac("sha256", secret).update(text).digest("hex").slice(0, 16)}`;
  return `<${tag}>\n${text}\n</${tag}>`;
};
