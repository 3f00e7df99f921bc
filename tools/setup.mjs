import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ensureAgentCli } from "./setup/agent-cli.mjs";
import { ensurePrograms } from "./setup/debian-packages.mjs";
import { installDependencies } from "./setup/dependencies.mjs";
import { findNode } from "./setup/node.mjs";

/** The project's directory. */
export const root = dirname(dirname(fileURLToPath(import.meta.url)));

/**
 * Makes a fresh machine able to run the project, and costs next to nothing on one that is. Plain JavaScript that any
 * Node from 20 on runs before anything is installed.
 *
 * @param {"demo" | "tutorial" | "install" | "test" | null} purpose
 * @returns {Promise<{node: string, path: string}>} the Node to run with and the PATH on which the project's own tools come first
 * @throws SetupError when a person has to do something first
 */
export const setUp = async (purpose) => {
  const say = (line) => process.stderr.write(`${line}\n`);
  await installDependencies(root, say);
  const node = findNode(root);
  if (purpose !== null) {
    ensurePrograms(purpose, say);
    ensureAgentCli(root, node, purpose);
  }
  const path = [join(root, "node_modules", ".bin"), dirname(node), process.env.PATH].join(delimiter);
  return { node, path };
};
