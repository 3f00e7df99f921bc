import { constants } from "node:fs";

/** Flags for files that an agent may have replaced: a named pipe would else block one of Node's few threads for ever. */
export const nonBlocking = {
  read: constants.O_RDONLY | constants.O_NONBLOCK,
  append: constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
} as const;

/** For a failed read or list: null where nothing is there. */
export const nullIfMissing = (error: NodeJS.ErrnoException): null => {
  if (error.code === "ENOENT") return null;
  throw error;
};
