import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ServiceError, unauthorizedBody } from "../contract/errors.ts";
import { anonymous } from "./access.ts";
import { json, type Reply, type Route } from "./route.ts";

/**
 * `GET /openapi.json`, and the page at `GET /docs` that shows it. The page loads all its files from this service, with
 * the key that it was opened with (`/docs?api_key=…`).
 */
export const docsRoutes = (openapi: () => string): Route[] => [
  {
    method: "get",
    path: "/",
    // A browser sends no key before the page has asked for it.
    open: true,
    handle: ({ request, principal }) => root(request, principal),
  },
  {
    method: "get",
    path: "/openapi.json",
    handle: () => ({
      status: 200,
      headers: { "content-type": "application/json", "cache-control": "no-store" },
      body: openapi(),
    }),
  },
  {
    method: "get",
    path: "/docs",
    handle: ({ request }) => ({ status: 200, headers: pageHeaders, body: page(keyQuery(request.url)) }),
  },
  { method: "get", path: "/docs/start.js", handle: () => asset("text/javascript", Buffer.from(start)) },
  {
    method: "get",
    path: "/docs/swagger-ui-bundle.js",
    handle: () => file("text/javascript", "swagger-ui-bundle.js"),
  },
  { method: "get", path: "/docs/swagger-ui.css", handle: () => file("text/css", "swagger-ui.css") },
];

/** A browser wants the page; others learn where to look. */
const root = ({ headers }: Request, principal: string): Reply => {
  if (headers.get("accept")?.includes("text/html"))
    return { status: 302, headers: { location: "ui/" }, body: null };
  if (principal === anonymous) throw new ServiceError("unauthorized", unauthorizedBody.error);
  return json(200, { page: "/ui/", docs: "/docs", openapi: "/openapi.json", jobs: "/jobs", mcp: "/mcp" });
};

/** The bundled program has the page's files beside it; from source they are in the package. */
const directory = (): string => {
  const beside = join(import.meta.dirname, "docs-ui");
  return existsSync(beside)
    ? beside
    : dirname(fileURLToPath(import.meta.resolve("swagger-ui-dist/swagger-ui.css")));
};

const file = async (type: string, name: string): Promise<Reply> => {
  try {
    return asset(type, await readFile(join(directory(), name)));
  } catch (cause) {
    const message =
      "This installation lacks the files of the documentation page; read GET /openapi.json instead";
    throw new ServiceError("not_found", message, { cause });
  }
};

const asset = (type: string, body: Uint8Array<ArrayBuffer>): Reply => ({
  status: 200,
  headers: { "content-type": `${type}; charset=utf-8`, "cache-control": "private, max-age=3600" },
  body,
});

const pageHeaders = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  // The page's address may hold a key.
  "referrer-policy": "no-referrer",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
};

const keyQuery = (url: string): string => {
  const key = new URL(url).searchParams.get("api_key");
  // encodeURIComponent leaves the apostrophe as it is; the attributes in the page have double quotes.
  return key ? `?api_key=${encodeURIComponent(key)}` : "";
};

const page = (query: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc: REST interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css${query}">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js${query}"></script>
<script src="docs/start.js${query}"></script>
</body>
</html>
`;

const start = `const key = new URLSearchParams(location.search).get("api_key");
const ui = SwaggerUIBundle({
  url: "openapi.json" + (key ? "?api_key=" + encodeURIComponent(key) : ""),
  dom_id: "#page",
  deepLinking: true,
  validatorUrl: null,
  onComplete: () => { if (key) ui.preauthorizeApiKey("header", key); },
});
`;
