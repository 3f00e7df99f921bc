import { readdir, readlink } from "node:fs/promises";

/** Whether a process of this machine has its working directory in a directory. False where that cannot be told. */
export const hasProcessIn = async (path: string): Promise<boolean> => {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return places.some((place) => place === path || place.startsWith(`${path}/`));
};
