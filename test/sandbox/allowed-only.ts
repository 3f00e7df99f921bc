import type { Allowed } from "../../src/sandbox/sandbox.ts";

/** What a run may use that is given nothing but some files to read. */
export const allowedOnly = (...read: string[]): Allowed => ({
  hosts: [],
  read,
  write: [],
  temporaryBytes: 64 * 2 ** 20,
  memoryBytes: null,
  processes: null,
});
