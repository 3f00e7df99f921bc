import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";
import react from "@vitejs/plugin-react";
import { build, type Plugin, type Rolldown } from "vite";
import { operations } from "../../src/contract/operations.ts";
import { packagesOf } from "./bundle.ts";

/**
 * Builds the page in the browser: `index.html`, and in `assets/` its files, each with one for Brotli and one for gzip
 * beside it.
 * @returns the directories of the packages that are in it
 */
export const buildWeb = async ({
  root,
  directory,
}: {
  root: string;
  directory: string;
}): Promise<string[]> => {
  // React is taken from here in its version for development or for production; tests set "test".
  const { NODE_ENV: before = "production" } = process.env;
  process.env["NODE_ENV"] = "production";
  const built = (await build({
    root: join(root, "web"),
    base: "/ui/",
    configFile: false,
    logLevel: "warn",
    plugins: [react(), contractForBrowsers(join(root, "src", "contract")), blockingScript],
    build: {
      outDir: directory,
      emptyOutDir: false,
      target: "es2023",
      // Every file is its own: the policy of the page permits no data in style sheets but images.
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
    },
  }).finally(() => Object.assign(process.env, { NODE_ENV: before }))) as Rolldown.RolldownOutput;
  const files = await readdir(directory, { recursive: true });
  await Promise.all(
    files.filter((file) => /\.(html|js|css)$/.test(file)).map((file) => compress(join(directory, file))),
  );
  return packagesOf(built.output.flatMap((item) => (item.type === "chunk" ? item.moduleIds : [])));
};

const compress = async (file: string): Promise<void> => {
  const content = await readFile(file);
  await writeFile(`${file}.br`, await promisify(brotliCompress)(content));
  await writeFile(`${file}.gz`, await promisify(gzip)(content, { level: 9 }));
};

/**
 * Keeps the schemas of the contract, and the library that they are made with, out of the page. The registry becomes a
 * table of what the client needs to ask; of other modules only the values that are used are kept.
 */
const contractForBrowsers = (contract: string): Plugin => ({
  name: "contract-for-browsers",
  enforce: "post",
  transform(code, id) {
    if (!id.startsWith(contract)) return null;
    if (id.endsWith("/operations.ts")) {
      const entries = Object.entries(operations).map(([name, { http, errors }]) => {
        const { method, path } = http;
        return [name, { http: { method, path, ...("query" in http && { query: true }) }, errors }];
      });
      return { code: `export const operations = ${JSON.stringify(Object.fromEntries(entries))};`, map: null };
    }
    return { code: droppable(code, this.parse(code)), map: null };
  },
});

/** The code with the first value of each top-level constant marked: it is left out when nothing uses the constant. */
const droppable = (code: string, program: ReturnType<Rolldown.PluginContext["parse"]>): string => {
  const calls = program.body.flatMap((statement) => {
    const declared = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
    if (declared?.type !== "VariableDeclaration") return [];
    return declared.declarations.flatMap(({ init }) =>
      init?.type === "CallExpression" || init?.type === "ObjectExpression" ? [init] : [],
    );
  });
  return calls.reduceRight(
    (text, { start, end }) =>
      `${text.slice(0, start)}/* @__PURE__ */ (() => (${text.slice(start, end)}))()${text.slice(end)}`,
    code,
  );
};

/** Nothing is painted before the page knows whether it is light or dark. */
const blockingScript: Plugin = {
  name: "blocking-script",
  transformIndexHtml: (html) =>
    html.replace('<script type="module"', '<script type="module" blocking="render"'),
};

/** Builds the page alone, for a service that runs from source. */
if (import.meta.main) {
  const root = join(import.meta.dirname, "..", "..");
  await mkdir(join(root, "dist"), { recursive: true });
  const fresh = await mkdtemp(join(root, "dist", "web.building-"));
  await buildWeb({ root, directory: fresh });
  await rm(join(root, "dist", "web"), { recursive: true, force: true });
  await rename(fresh, join(root, "dist", "web"));
}
