import { chmod, lstat, readdir } from "node:fs/promises";

/** Gives the owner back the right to read, write and enter a directory that an agent has taken away; not to what is in it. */
export const openDirectory = async (path: string | Buffer): Promise<void> => {
  const { mode } = await lstat(path);
  if ((mode & 0o700) !== 0o700) await chmod(path, (mode & 0o777) | 0o700);
};

/** The same for a whole tree, whose files can be read afterwards. Links are not followed; what belongs to others stays as it is. */
export const openTree = async (path: string | Buffer): Promise<void> => {
  const found = await lstat(path).catch(() => null);
  if (found?.isFile() === true && (found.mode & 0o400) === 0)
    await chmod(path, (found.mode & 0o777) | 0o400).catch(() => undefined);
  if (found?.isDirectory() !== true) return;
  await openDirectory(path).catch(() => undefined);
  // Names as bytes: they need not be UTF-8.
  const names = await readdir(path, { encoding: "buffer" }).catch(() => []);
  for (const name of names) await openTree(Buffer.concat([Buffer.from(path), slash, name]));
};

const slash = Buffer.of(0x2f);
