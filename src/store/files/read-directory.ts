import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { temporarySuffix } from "../../lib/atomic-file.ts";
import { withoutWaiting } from "../../lib/without-waiting.ts";

/**
 * The JSON files of a directory that a store has for itself, one after another; it is made when it is missing. What a
 * crashed write left behind is deleted. A file that cannot be read yields an empty text.
 */
export async function* readDirectory(
  directory: string,
): AsyncGenerator<{ path: string; name: string; text: string }> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const file of await readdir(directory)) {
    const path = join(directory, file);
    if (file.endsWith(temporarySuffix)) await rm(path, { force: true });
    if (!file.endsWith(".json")) continue;
    const text = await readFile(path, { encoding: "utf8", flag: withoutWaiting.read }).catch(() => "");
    yield { path, name: file.slice(0, -".json".length), text };
  }
}
