import { isBuiltin } from "node:module";
import { join } from "node:path";
import { rolldown } from "rolldown";
import type { OutputChunk } from "rolldown";

type Options = { root: string; directory: string };

/**
 * Bundles `svc` and `bridge` with all their packages. What is imported lazily stays in files of its own, all beside the program:
 * modules that look for assets beside themselves find them wherever they end up.
 * @returns the directories of the packages that are in it
 */
export const bundle = async ({ root, directory }: Options): Promise<{ packages: string[] }> => {
  const build = await rolldown({
    input: {
      svc: join(root, "src", "cli", "main.ts"),
      bridge: join(root, "src", "cli", "bridge", "main.ts"),
    },
    platform: "node",
    transform: { define: { "process.env.NODE_ENV": '"production"' } },
    // Neither is installed: Ink imports the one for its own developers only, the agent of proxies the other when asked for it.
    resolve: { alias: { "react-devtools-core": false, kerberos: false } },
    onwarn: (warning) => {
      // A warning here is a package left outside or a missing export: a program that fails at its user's.
      throw new Error(`The bundle is not sound: ${warning.message}`);
    },
  });
  try {
    const { output } = await build.write({
      dir: directory,
      format: "esm",
      entryFileNames: "[name].mjs",
      chunkFileNames: "[name]-[hash].mjs",
      banner: (chunk) => (chunk.isEntry ? "#!/usr/bin/env node" : ""),
    });
    const chunks = output.filter((item): item is OutputChunk => item.type === "chunk");
    checkImports(chunks);
    return { packages: packagesOf(chunks.flatMap(({ moduleIds }) => moduleIds)) };
  } finally {
    await build.close();
  }
};

/** Fails when something is imported that is neither Node's own nor in the bundle: there is no node_modules beside it. */
const checkImports = (chunks: OutputChunk[]): void => {
  const files = new Set(chunks.map(({ fileName }) => fileName));
  for (const { fileName, imports, dynamicImports } of chunks) {
    const outside = [...imports, ...dynamicImports].filter((name) => !files.has(name) && !isBuiltin(name));
    if (outside.length > 0)
      throw new Error(`${fileName} imports what is not in the bundle: ${outside.join(", ")}`);
  }
};

/** The package directories that these modules lie in. */
export const packagesOf = (modules: readonly string[]): string[] => {
  const directories = modules.flatMap((module) => {
    const directory = /^\/.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(module)?.[0];
    return directory === undefined ? [] : [directory];
  });
  return [...new Set(directories)];
};
