import { constants } from "node:fs";

/**
 * Flags for files that an agent of the same user may have replaced. With the usual flags, a named pipe would block one of
 * Node's few file-system threads for ever; with these it reads as empty and cannot be written.
 */
export const nonBlocking = {
  read: constants.O_RDONLY | constants.O_NONBLOCK,
  append: constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
} as const;

/** For a failed read or list: null where nothing is there. */
export const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT") return null;
  throw error;
};
