import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { publishedManifest } from "./manifest.ts";

/**
 * npm packs the package.json that it finds in the directory, and ours is that of a repository. So the published one
 * takes its place while npm packs, and the real one lies beside it. Both steps are a rename: after a crash at any
 * moment `putBack` brings back the real one, and never anything older than what is there.
 */
export const swapIn = async (root: string): Promise<void> => {
  const { manifest, aside } = places(root);
  const original = await readFile(manifest, "utf8");
  await writeFile(aside, original);
  await writeFile(`${manifest}.published`, publishedManifest(original));
  await rename(`${manifest}.published`, manifest);
};

/** What was found in the place of package.json: the published one, or one that was edited since; null: no copy was set aside. */
export const putBack = async (root: string): Promise<"published" | "edited" | null> => {
  const { manifest, aside } = places(root);
  const original = await readFile(aside, "utf8").catch(missing);
  if (original === null) return null;
  const current = await readFile(manifest, "utf8").catch(missing);
  if (current !== null && current !== publishedManifest(original)) {
    await rm(aside, { force: true });
    return "edited";
  }
  // The guard and postpack may run at once: the second has nothing left to do.
  await rename(aside, manifest).catch(missing);
  return "published";
};

/** Whether the published manifest stands in for the real one. */
export const isSwapped = async (root: string): Promise<boolean> =>
  (await readFile(places(root).aside, "utf8").catch(missing)) !== null;

const places = (root: string): { manifest: string; aside: string } => ({
  manifest: join(root, "package.json"),
  aside: join(root, "package.json.aside"),
});

const missing = (error: unknown): null => {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return null;
  throw error;
};
