import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { SetupError } from "./setup-error.mjs";

const neededMajor = 24;

/**
 * The Node that runs the project: the pinned one, which npm brings for Linux, else the one that runs this if it is new enough.
 *
 * @param {string} root
 * @returns {string} its path
 */
export const findNode = (root) => {
  const pinned = join(root, "node_modules", `node-linux-${process.arch}`, "bin", "node");
  if (process.platform === "linux" && majorOf(pinned) >= neededMajor) return pinned;
  if (majorOf(process.execPath) >= neededMajor) return process.execPath;
  const why =
    process.platform === "linux"
      ? `the pinned one, ${pinned}, is missing or does not run here (npm was told to leave optional packages out, or this Linux has another C library than glibc)`
      : `on ${process.platform} none is pinned`;
  throw new SetupError(
    `Node ${neededMajor} or newer is needed: ${why}, and this is ${process.version}. Install Node ${neededMajor}, or run \`npm ci --include=optional\`.`,
  );
};

const majorOf = (node) =>
  Number(/^v(\d+)\./.exec(spawnSync(node, ["--version"], { encoding: "utf8" }).stdout ?? "")?.[1] ?? 0);
