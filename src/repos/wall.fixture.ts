import { findBwrap } from "../sandbox/bwrap.ts";
import { findLandlock } from "../sandbox/landlock.ts";
import { unconfined, type Confine } from "./wall.ts";

/** The wall of each mode of the sandbox. */
export const walls = {
  bwrap: (await findBwrap()).confine,
  landlock: (await findLandlock()).confine,
  off: unconfined,
} satisfies Record<string, Confine>;

export type WallMode = keyof typeof walls;

/** That of a test which asks for none: SVC_TEST_WALL=bwrap, landlock or off. */
export const usualWall = walls[(process.env["SVC_TEST_WALL"] ?? "landlock") as WallMode];
