import { realpath } from "node:fs/promises";
import { resolve } from "node:path";
import { FileFault, isInside } from "./contained.ts";
import { readMcpServers } from "./json-files.ts";
import type { JsonObject } from "./json-files.ts";
import { ProfileError } from "./profile.ts";

/**
 * The servers of the MCP file that a request names. A relative path is taken from the shared root.
 * @throws ProfileError `mcp_config_invalid`
 */
export const requestedMcpServers = async (
  filePath: string,
  sharedFsRoot: string | null,
): Promise<JsonObject> => {
  if (filePath === "") return {};
  const invalid = (message: string, cause?: unknown) =>
    new ProfileError("mcp_config_invalid", message, { cause });
  if (sharedFsRoot === null) {
    throw invalid(
      "file_path needs SERVICE_SHARED_FS_ROOT, under which the file must lie; set it, or leave file_path out",
    );
  }
  if (filePath.includes("\0")) throw invalid("file_path holds a NUL character");
  const path = resolve(sharedFsRoot, filePath);
  // Said before the file is touched, so that the answer tells nothing about files elsewhere.
  if (!isInside(sharedFsRoot, path) && !isInside(await realRoot(sharedFsRoot), path)) {
    throw invalid(`file_path must lie under SERVICE_SHARED_FS_ROOT (${sharedFsRoot}); ${path} does not`);
  }
  const servers = await readMcpServers({ root: sharedFsRoot, path }).catch((error: unknown) => {
    throw error instanceof FileFault ? invalid(`file_path: ${error.message}`, error) : error;
  });
  if (servers === null) throw invalid(`file_path: there is no file ${path}`);
  return servers;
};

const realRoot = (root: string): Promise<string> => realpath(root).catch(() => root);
