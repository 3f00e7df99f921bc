import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { serveStatic } from "@hono/node-server/serve-static";
import { ServiceError, unauthorizedBody } from "../contract/errors.ts";
import { unauthenticated } from "./access.ts";
import { json, type Call, type Reply, type Route } from "./route.ts";

/**
 * The page in the browser, `GET /openapi.json`, and the page at `GET /docs` that shows it. The page's files are public: what
 * it shows comes from the operations, with the user's key. `/docs` uses the key that it was opened with.
 */
export const pageRoutes = (openapi: () => string): Route[] => [
  // A browser sends no key before the page has asked for it.
  { method: "get", path: "/", open: true, handle: root },
  {
    method: "get",
    path: "/openapi.json",
    handle: () => text("application/json", openapi(), { "cache-control": "no-store" }),
  },
  {
    method: "get",
    path: "/docs",
    handle: ({ request: { url } }) =>
      // The names of its files are relative to an address without a slash.
      new URL(url).pathname.endsWith("/")
        ? { status: 302, headers: { location: `../docs${keyQuery(url)}` }, body: null }
        : text("text/html; charset=utf-8", docsPage(keyQuery(url)), docsHeaders),
  },
  {
    method: "get",
    path: "/docs/start.js",
    handle: () => text("text/javascript; charset=utf-8", docsStart, docsFile.headers),
  },
  ...["swagger-ui-bundle.js", "swagger-ui.css"].map((name): Route => ({
    method: "get",
    path: `/docs/${name}`,
    handle: (call) => swaggerFiles(call, name, docsFile),
  })),
  {
    method: "get",
    path: "/ui/assets/{file}",
    open: true,
    handle: (call) => webFiles(call, `assets/${call.path["file"]}`, asset),
  },
  // The page reads the rest of the path itself.
  { method: "get", path: "/ui/*", open: true, handle: (call) => webFiles(call, "index.html", shell) },
];

/** A directory beside the bundled program; undefined: it runs from source. */
const bundled = (name: string): string | undefined => {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : undefined;
};

type Serve = (
  call: Call,
  path: string,
  more: { headers: Record<string, string>; missing: string },
) => Promise<Response>;

/** Serves the files of a directory, in the best encoding that was built and is accepted. It may be built meanwhile. */
const files =
  (directory: () => string): Serve =>
  async ({ context }, path, { headers, missing }) => {
    const root = directory();
    // No name of a file here begins with a dot, so that none leads out of the directory.
    const isName = existsSync(root) && path.split("/").every((part) => /^\w[\w.-]*$/.test(part));
    const serve = serveStatic({ root, path, precompressed: true });
    const answer = isName ? await serve(context, async () => undefined) : undefined;
    if (answer === undefined) throw new ServiceError("not_found", missing);
    for (const [name, value] of Object.entries({ vary: "Accept-Encoding", ...headers }))
      answer.headers.set(name, value);
    return answer;
  };

/** From source the page is where `npm run build` has put it. */
const webFiles = files(() => bundled("web") ?? join(import.meta.dirname, "..", "..", "dist", "web"));
const swaggerFiles = files(
  () => bundled("docs-ui") ?? dirname(fileURLToPath(import.meta.resolve("swagger-ui-dist/swagger-ui.css"))),
);

/** A browser wants the page; others learn where to look. */
const root = ({ request: { headers }, principal }: Call): Reply => {
  if (headers.get("accept")?.includes("text/html"))
    return { status: 302, headers: { location: "ui/" }, body: null };
  if (principal === unauthenticated.principal) throw new ServiceError("unauthorized", unauthorizedBody.error);
  return json(200, { page: "/ui/", docs: "/docs", openapi: "/openapi.json", jobs: "/jobs", mcp: "/mcp" });
};

const text = (type: string, body: string, headers: Record<string, string>): Reply => ({
  status: 200,
  headers: { "content-type": type, ...headers },
  body,
});

const policy = (styles: string): string =>
  `default-src 'none'; script-src 'self'; style-src ${styles}; connect-src 'self'; img-src 'self' data:; ` +
  "font-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const shell = {
  headers: {
    "cache-control": "no-cache",
    "content-security-policy": policy("'self'"),
    "referrer-policy": "no-referrer",
  },
  missing: "The page is not built: run npm run build, then load this again",
};

const asset = {
  // Names of assets change with their contents.
  headers: { "cache-control": "public, max-age=31536000, immutable" },
  missing: "This version of the page has no such file; load the page again",
};

const docsHeaders = {
  "cache-control": "no-store",
  // The page's address may hold a key.
  "referrer-policy": "no-referrer",
  "content-security-policy": policy("'self' 'unsafe-inline'"),
};

const docsFile = {
  headers: { "cache-control": "private, max-age=3600" },
  missing: "This installation lacks the files of the documentation page; read GET /openapi.json instead",
};

const keyQuery = (url: string): string => {
  const key = new URL(url).searchParams.get("api_key");
  // encodeURIComponent leaves the apostrophe as it is; the attributes in the page have double quotes.
  return key ? `?api_key=${encodeURIComponent(key)}` : "";
};

const docsPage = (query: string): string => `<!doctype html>
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

const docsStart = `const key = new URLSearchParams(location.search).get("api_key");
const ui = SwaggerUIBundle({
  url: "openapi.json" + (key ? "?api_key=" + encodeURIComponent(key) : ""),
  dom_id: "#page",
  deepLinking: true,
  validatorUrl: null,
  onComplete: () => { if (key) ui.preauthorizeApiKey("header", key); },
});
`;
