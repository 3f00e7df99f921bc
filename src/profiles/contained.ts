import { constants } from "node:fs";
import { open, readlink, realpath } from "node:fs/promises";
import { sep } from "node:path";
import { z } from "zod";

/** Why a file cannot be used: a sentence that names it. */
export class FileFault extends Error {
  override name = "FileFault";
}

type Request = {
  /** Directory that must contain the file, after all links. */
  root: string;
  path: string;
  maxBytes: number;
};

export type ContainedFile = { bytes: Buffer; executable: boolean };

/**
 * Reads a regular file that is under `root` once all links are resolved; null when it is missing. Opens the file first
 * and asks the descriptor for its path, so that nothing can be swapped in between.
 * @throws FileFault
 */
export const readContained = async ({ root, path, maxBytes }: Request): Promise<ContainedFile | null> => {
  // Without O_NONBLOCK, opening a named pipe would wait for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw unreadable(path, error);
  });
  if (file === null) return null;
  try {
    const realPath = await readlink(`/proc/self/fd/${file.fd}`);
    if (!isInside(await realpath(root), realPath)) throw outside(root, path);
    const status = await file.stat();
    if (!status.isFile()) throw new FileFault(`${path} is not a regular file`);
    if (status.size > maxBytes) {
      throw new FileFault(`${path} has ${status.size} bytes; at most ${maxBytes} are taken`);
    }
    return { bytes: await file.readFile(), executable: (status.mode & 0o100) !== 0 };
  } finally {
    await file.close();
  }
};

export type JsonObject = Record<string, unknown>;

/** 1 MiB, for settings and MCP files alike. */
const maxJsonBytes = 1_048_576;

/** The JSON object in a file under `root`, null when the file is missing. @throws FileFault */
export const readJsonObject = async (root: string, path: string): Promise<JsonObject | null> => {
  const file = await readContained({ root, path, maxBytes: maxJsonBytes });
  if (file === null) return null;
  const value = z.record(z.string(), z.unknown()).safeParse(parse(path, file.bytes.toString("utf8")));
  if (!value.success) throw new FileFault(`${path} must hold a JSON object`);
  return value.data;
};

/** The `mcpServers` of an MCP configuration file, null when the file is missing. @throws FileFault */
export const readMcpServers = async (root: string, path: string): Promise<JsonObject | null> => {
  const object = await readJsonObject(root, path);
  if (object === null) return null;
  const servers = z.record(z.string(), z.record(z.string(), z.unknown())).safeParse(object.mcpServers);
  if (!servers.success)
    throw new FileFault(`${path} must have an object "mcpServers" with an object for each server`);
  return servers.data;
};

export const isInside = (directory: string, path: string): boolean =>
  path.startsWith(directory.endsWith(sep) ? directory : directory + sep);

export const isMissing = (error: unknown): boolean => ["ENOENT", "ENOTDIR"].includes(errorCode(error));

const errorCode = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "unknown error";

export const outside = (root: string, path: string): FileFault =>
  new FileFault(`${path} leads outside ${root} through a link; put the file itself there`);

export const unreadable = (path: string, error: unknown): FileFault =>
  new FileFault(`${path} cannot be read (${errorCode(error)})`, { cause: error });

const parse = (path: string, text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the text, which may contain a server's token.
    throw new FileFault(`${path} is not valid JSON`, { cause: error });
  }
};
