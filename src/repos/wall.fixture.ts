import { createSandbox } from "../sandbox/sandbox.ts";
import { unconfined, type Confine } from "./wall.ts";

/** The wall of each mode of the sandbox. */
export const walls = {
  bwrap: (await createSandbox("bwrap")).sandbox.confine,
  landlock: (await createSandbox("landlock")).sandbox.confine,
  off: unconfined,
} satisfies Record<string, Confine>;

export type WallMode = keyof typeof walls;

/** That of a test which asks for none: SVC_TEST_WALL=bwrap, landlock or off. */
export const usualWall = walls[(process.env["SVC_TEST_WALL"] ?? "landlock") as WallMode];
