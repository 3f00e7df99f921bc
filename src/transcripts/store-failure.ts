import { ServiceError } from "../contract/errors.ts";

const full = "cannot grow: make room on its disk; what is missing is then collected by itself";
const unusable =
  "cannot be used: give this user the right to read and write it and its directory, or name another BRIDGE_DIR";
const damaged =
  "is damaged: move it away, with the files that begin with its name. The transcripts that are there are then read anew";

/** What to do about SQLite's result codes. Any other is a fault of the program. */
const remedies: Record<number, string> = {
  5: "is locked by another process: try again, or end that process", // BUSY
  8: unusable, // READONLY
  10: "cannot be read or written: look at its disk and at the limits of this process", // IOERR
  11: damaged, // CORRUPT
  13: full, // FULL
  14: unusable, // CANTOPEN
  26: damaged, // NOTADB
};

/** An error of the file at `path` as callers see it; others stay what they are. */
export const storeFailure = (error: unknown, path: string): unknown => {
  const { code = "", errcode = 0, syscall, message } = error as NodeJS.ErrnoException & { errcode?: number };
  const remedy = code.startsWith("ZSTD_")
    ? damaged
    : syscall === undefined
      ? remedies[errcode % 256]
      : code === "ENOSPC"
        ? full
        : unusable;
  return remedy === undefined
    ? error
    : new ServiceError("store_unavailable", `${path} ${remedy} (${message})`, { cause: error });
};
