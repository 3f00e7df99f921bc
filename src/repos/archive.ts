import { runCommand } from "../lib/command.ts";
import { pickEnvironment } from "../lib/git.ts";
import { openTree } from "./open-up.ts";
import type { Room } from "./room.ts";
import { pathBytes } from "./tree.ts";

type Archive = {
  /** Where the names start from. */
  directory: string;
  /** Absolute path of the archive. */
  file: string;
  signal: AbortSignal;
};

/**
 * Writes files and whole directories to a tar archive: what git does not take it takes, whatever the names, kinds and
 * depth. Links are not followed, nothing is run or believed. Names are bytes, one character each (latin1).
 * @throws Error when anything could not be read
 */
export const pack = async (
  room: Room,
  { directory, file, names, signal }: Archive & { names: string[] },
): Promise<void> => {
  const args = ["-c", "-f", file, "-C", directory, "--null", "-T", "-"];
  // Sorted, so that the same files make the same archive; with a dot first, so that none is taken for an option.
  const input = Buffer.concat(names.toSorted().map((name) => pathBytes(`./${name}\0`)));
  await tar(room, { args, input, signal }).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !error.message.includes("Permission denied")) throw error;
    for (const name of names) await openTree(Buffer.concat([Buffer.from(`${directory}/`), pathBytes(name)]));
    await tar(room, { args, input, signal });
  });
};

/** Puts what was packed back, over what is there. */
export const unpack = (room: Room, { directory, file, signal }: Archive): Promise<void> =>
  tar(room, { args: ["-x", "-p", "-f", file, "-C", directory], input: Buffer.of(), signal });

const tar = async (
  room: Room,
  { args, input, signal }: { args: string[]; input: Buffer; signal: AbortSignal },
): Promise<void> => {
  const { exitCode, ended, stderr } = await runCommand({
    command: "tar",
    args,
    input,
    cwd: "/",
    env: { ...pickEnvironment(room.env), LC_ALL: "C" },
    timeoutSeconds: room.settings.gitTimeout,
    signal,
  });
  if (exitCode !== 0 || ended !== "exited")
    throw new Error(`tar ended (${ended}, ${exitCode}): ${stderr.slice(0, 1000)}`);
};
