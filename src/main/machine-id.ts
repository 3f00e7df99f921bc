import { randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The name of this machine among those that share a store: made once, and kept in the directory. @throws Error */
export const machineId = (directory: string): string => {
  const path = join(directory, "machine");
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  try {
    writeFileSync(path, `${randomUUID()}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  const id = readFileSync(path, "utf8").trim();
  if (id !== "") return id;
  throw new Error(`${path} holds no id: remove it, or set BRIDGE_MACHINE`);
};
