import { cp, readdir } from "node:fs/promises";
import { join } from "node:path";

/** Machines that the published package runs on. */
const platforms = ["linux-x64", "linux-arm64"];

/** Files that the program reads at run time: the profiles, the native part of the file lock, the page at /docs. */
export const copyAssets = async ({ root, directory }: { root: string; directory: string }): Promise<void> => {
  await cp(join(root, "src", "profiles", "bundled"), join(directory, "profiles"), { recursive: true });
  const [native, page] = packagesOfAssets(root);
  for (const platform of platforms) {
    const from = join(native, "prebuilds", platform);
    for (const file of await readdir(from)) {
      // The package ships builds for another runtime too.
      if (file.endsWith(".node")) await cp(join(from, file), join(directory, "prebuilds", platform, file));
    }
  }
  for (const file of ["swagger-ui-bundle.js", "swagger-ui.css"]) {
    await cp(join(page, file), join(directory, "docs-ui", file));
  }
};

/** Packages whose files are copied instead of bundled. */
export const packagesOfAssets = (root: string): [native: string, page: string] => [
  join(root, "node_modules", "fs-native-extensions"),
  join(root, "node_modules", "swagger-ui-dist"),
];
