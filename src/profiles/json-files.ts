import { z } from "zod";
import { FileFault, readContained } from "./contained.ts";

export type JsonObject = Record<string, unknown>;

/** 1 MiB, for settings and MCP files alike. */
const maxJsonBytes = 1_048_576;

type Request = { root: string; path: string };

/** The JSON object in a file under `root`, null when the file is missing. @throws FileFault */
export const readJsonObject = async ({ root, path }: Request): Promise<JsonObject | null> => {
  const file = await readContained({ root, path, maxBytes: maxJsonBytes });
  if (file === null) return null;
  const value = z.record(z.string(), z.unknown()).safeParse(parse(path, file.bytes.toString("utf8")));
  if (!value.success) throw new FileFault(`${path} must hold a JSON object`);
  return value.data;
};

/** The `mcpServers` of an MCP configuration file, null when the file is missing. @throws FileFault */
export const readMcpServers = async (request: Request): Promise<JsonObject | null> => {
  const object = await readJsonObject(request);
  if (object === null) return null;
  const servers = z.record(z.string(), z.record(z.string(), z.unknown())).safeParse(object.mcpServers);
  if (!servers.success)
    throw new FileFault(`${request.path} must have an object "mcpServers" with an object for each server`);
  return servers.data;
};

const parse = (path: string, text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the text, which may hold a server's token.
    throw new FileFault(`${path} is not valid JSON`, { cause: error });
  }
};
