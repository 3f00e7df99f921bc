import { GitError } from "../lib/git.ts";
import { openTree } from "./open-up.ts";
import { pastPipes } from "./remove-pipes.ts";
import { runGit, type Room } from "./room.ts";

export type AddAll = {
  /** The working tree; the variables name it too, and the index that is added to. */
  root: string;
  variables: Record<string, string>;
  signal: AbortSignal;
};

/** Adds every file of a working tree to an index, also those that an agent made hard to read. Resolves to what git said. */
export const addAll = async (room: Room, request: AddAll): Promise<string> => {
  const said = await add(room, request);
  if (!said.includes("Permission denied")) return said;
  await openTree(request.root);
  return add(room, request);
};

const add = async (room: Room, { root, variables, signal }: AddAll): Promise<string> => {
  try {
    const added = await pastPipes(root, () =>
      runGit(room, ["add", "--all", "--ignore-errors"], { variables, signal }),
    );
    return added.stderr;
  } catch (error) {
    // Exit code 1: a file that could not be read was passed over, all others are in.
    if (error instanceof GitError && error.exitCode === 1) return error.said;
    throw error;
  }
};
