import { chmod, chown, stat } from "node:fs/promises";

/** Who owns what is made under the root, and with which mode. */
export type Rights = { mode: number; owner: { uid: number; gid: number } | null };

/** Whoever may write to the root may write to what is made in it: an administrator may run this, and the service not be one. */
export const rightsOf = async (root: string): Promise<Rights> => {
  const { mode, uid, gid } = await stat(root);
  return { mode: mode & 0o3777, owner: process.getuid?.() === 0 ? { uid, gid } : null };
};

/** What has just been made is given its owner and mode, whatever the umask is. Shared file systems may know no owners. */
export const grant = async (path: string, { mode, owner }: Rights): Promise<void> => {
  const unlessRefused = (error: unknown): void => {
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EINVAL"].includes(codeOf(error))) throw error;
  };
  if (owner !== null) await chown(path, owner.uid, owner.gid).catch(unlessRefused);
  await chmod(path, mode).catch(unlessRefused);
};

export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";
