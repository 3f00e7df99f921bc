import type { IncomingMessage } from "node:http";

const hopByHop = /^(connection|expect|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/;

/** Headers that are not of one connection only. The length stays: without it a body would count as the next request. */
export const endToEnd = ({ headers }: IncomingMessage): Record<string, string | string[]> => {
  const named = new Set((headers.connection ?? "").toLowerCase().split(/\s*,\s*/));
  named.delete("content-length");
  const kept = Object.entries(headers).filter(([name]) => !hopByHop.test(name) && !named.has(name));
  return Object.fromEntries(kept.map(([name, value]) => [name, value ?? ""]));
};
