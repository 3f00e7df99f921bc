import { chmod, mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { copyAssets, packagesOfAssets } from "./pack/assets.ts";
import { bundle } from "./pack/bundle.ts";
import { collectLicences } from "./pack/licences.ts";
import { writeCompletions } from "./pack/completion.ts";
import { writeManPages } from "./pack/man.ts";
import { buildWeb } from "./pack/web.ts";

/**
 * Makes a directory of the program with everything it needs, so that the published package depends on nothing but Node.
 * It is made beside and swapped in, so that a build that fails leaves the one before.
 */
export const build = async (root: string, target = join(root, "dist")): Promise<void> => {
  await mkdir(dirname(target), { recursive: true });
  const fresh = await mkdtemp(`${target}.building-`);
  try {
    const { packages } = await bundle({ root, directory: fresh });
    await copyAssets({ root, directory: fresh });
    await writeManPages({ directory: fresh });
    await writeCompletions({ directory: fresh });
    const ofPage = await buildWeb({ root, directory: join(fresh, "web") });
    const licences = await collectLicences([...packages, ...ofPage, ...packagesOfAssets(root)]);
    await writeFile(join(fresh, "LICENSES.txt"), licences);
    await chmod(fresh, 0o755);
    for (const program of ["svc.mjs", "bridge.mjs"]) await chmod(join(fresh, program), 0o755);
    await rm(target, { recursive: true, force: true });
    await rename(fresh, target);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
};

if (import.meta.main) await build(join(import.meta.dirname, ".."));
