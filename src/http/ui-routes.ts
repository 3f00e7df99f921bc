import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { ServiceError } from "../contract/errors.ts";
import type { Reply, Route } from "./route.ts";

/** The page in the browser. Its files are public; what it shows comes from the operations, with the user's key. */
export const uiRoutes = (): Route[] => [
  {
    method: "get",
    path: "/ui/assets/{file}",
    open: true,
    handle: ({ request, path }) => asset(path["file"] ?? "", request.headers),
  },
  // The page reads the rest of the path itself.
  { method: "get", path: "/ui/*", open: true, handle: ({ request }) => shell(request.headers) },
];

/** Beside the bundled program; for one that runs from source where `npm run build` has put it. */
const directory = (): string => {
  const beside = join(import.meta.dirname, "web");
  return existsSync(beside) ? beside : join(import.meta.dirname, "..", "..", "dist", "web");
};

const shell = async (headers: Headers): Promise<Reply> => {
  const reply = await file("index.html", headers);
  if (reply === null)
    throw new ServiceError("not_found", "The page is not built: run npm run build, then load this again");
  return {
    ...reply,
    headers: {
      ...reply.headers,
      "cache-control": "no-cache",
      "content-security-policy": policy,
      "referrer-policy": "no-referrer",
    },
  };
};

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** Names of assets change with their contents. */
const asset = async (name: string, headers: Headers): Promise<Reply> => {
  const reply = /^\w[\w.-]*$/.test(name) ? await file(join("assets", name), headers) : null;
  if (reply === null)
    throw new ServiceError("not_found", "This version of the page has no such file; load the page again");
  return { ...reply, headers: { ...reply.headers, "cache-control": "public, max-age=31536000, immutable" } };
};

const types: Record<string, string> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};

const encodings = [
  { name: "br", ending: ".br" },
  { name: "gzip", ending: ".gz" },
];

/** The file in the best encoding that was built and is accepted. Null: there is no such file. */
const file = async (path: string, headers: Headers): Promise<Reply | null> => {
  const type = types[extname(path)];
  if (type === undefined) return null;
  const accepted = headers.get("accept-encoding") ?? "";
  const encoding = encodings.find(({ name }) =>
    new RegExp(`\\b${name}\\b(?!\\s*;\\s*q=0(\\.0*)?\\s*(,|$))`).test(accepted),
  );
  try {
    const body = await readFile(join(directory(), path + (encoding?.ending ?? "")));
    const coding = encoding === undefined ? {} : { "content-encoding": encoding.name };
    return { status: 200, headers: { "content-type": type, vary: "Accept-Encoding", ...coding }, body };
  } catch {
    return null;
  }
};
