import type { Route } from "./route.ts";

/**
 * Headers that let a page of another origin read an answer. Which origins may ask is decided before, by the source
 * check: on loopback pages of this machine, elsewhere with keys any page. That page must hold a key of its own, since
 * no browser adds one by itself (there are no cookies, and credentials are not allowed here).
 */
export const readableElsewhere = (headers: Headers): Record<string, string> => {
  const origin = headers.get("origin");
  if (origin === null) return { vary: "Origin" };
  return {
    vary: "Origin",
    "access-control-allow-origin": origin,
    "access-control-expose-headers": [
      "Mcp-Session-Id, WWW-Authenticate, Retry-After, X-Request-Id, X-Client-Request-Id, X-Conversation-Id",
      "X-Service-Conversation-Source, X-Service-Ignored-Params, X-Should-Retry",
    ].join(", "),
  };
};

/**
 * Answers what a browser asks before it lets a page send a request with a key or JSON; such a question has no key.
 * @param methods those that a page may try
 * @param answered those of them that are answered with more than a refusal that the page can read
 */
export const preflightRoute = (
  path: string,
  methods: readonly string[],
  answered: readonly string[] = methods,
): Route => ({
  method: "options",
  path,
  open: true,
  crossOrigin: true,
  handle: ({ request: { headers } }) => ({
    status: 204,
    headers: {
      allow: [...answered, "OPTIONS"].join(", "),
      "access-control-allow-methods": methods.join(", "),
      "access-control-allow-headers": allowedHeaders(headers.get("access-control-request-headers")),
      "access-control-max-age": "600",
    },
    body: null,
  }),
});

const named = [
  "Accept",
  "Authorization",
  "Content-Type",
  "Last-Event-ID",
  "MCP-Protocol-Version",
  "Mcp-Method",
  "Mcp-Name",
  "Mcp-Session-Id",
  "X-Api-Key",
];

/**
 * Those with names of the client's choice are taken from the question: the parameters that an MCP client mirrors are named
 * by the tool, and clients of chat completions tell about themselves and their chats in many ways.
 */
const allowedHeaders = (asked: string | null): string => {
  const mirrored = (asked ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => /^(mcp-param|x|openai|http|idempotency)-[\w-]{1,100}$/i.test(name));
  return [...named, ...mirrored.slice(0, 50)].join(", ");
};
