import { constants } from "node:fs";

/**
 * Flags with which to open a file that an agent, which runs as the same user, may have replaced. With the usual ones a
 * named pipe in its place would hold one of Node's few file-system threads for ever; with these it reads as empty, and
 * cannot be written.
 */
export const nonBlocking = {
  read: constants.O_RDONLY | constants.O_NONBLOCK,
  append: constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK,
} as const;
