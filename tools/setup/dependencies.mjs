import { spawnSync } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { npmProgress } from "./npm-progress.mjs";
import { runInGroup } from "./run-in-group.mjs";
import { SetupError } from "./setup-error.mjs";

/**
 * Whether node_modules holds what package-lock.json names. Compared with the record that npm writes when an install is
 * complete: an interrupted one leaves none, and one made by hand for another lock differs. Optional packages may be
 * missing, most are for other platforms.
 *
 * @param {string} root
 */
export const dependenciesMatch = (root) => {
  const wanted = lockedPackages(join(root, "package-lock.json"));
  const installed = lockedPackages(join(root, "node_modules", ".package-lock.json"));
  if (installed === null || wanted === null) return false;
  return Object.entries(wanted).every(([path, entry]) => {
    const found = installed[path];
    if (path === "" || (found === undefined && (entry.optional || entry.devOptional))) return true;
    return found?.version === entry.version && found?.integrity === entry.integrity;
  });
};

/**
 * Makes node_modules match, by `npm ci`. Two runs at once: the second waits for the first and then finds nothing to do.
 *
 * @param {string} root
 * @param {(line: string) => void} say
 */
export const installDependencies = async (root, say) => {
  if (dependenciesMatch(root)) return;
  try {
    accessSync(root, constants.W_OK);
  } catch (error) {
    throw new SetupError(
      `The packages of package-lock.json are not installed and ${root} cannot be written to (${error.code}). Run this once as a user who can.`,
    );
  }
  say("Installing the packages of package-lock.json with npm ci (once; about a minute) …");
  const install = [process.execPath, fileURLToPath(new URL("npm-ci.mjs", import.meta.url)), root];
  const [program, ...args] = hasFlock() ? ["flock", join(root, "package-lock.json"), ...install] : install;
  const progress = npmProgress(say, cureOf);
  const { code, output } = await runInGroup(program, args, progress.read);
  progress.end();
  if (code !== 0) throw new SetupError(explain(output));
  if (!dependenciesMatch(root)) {
    throw new SetupError(
      "npm ci ended well but node_modules is not what package-lock.json names. Remove node_modules and run the same command again.",
    );
  }
};

/** Part of Debian's and Alpine's base; elsewhere two first runs at once are left to the user's care. */
const hasFlock = () => spawnSync("flock", ["--version"], { stdio: "ignore" }).status === 0;

const lockedPackages = (file) => {
  try {
    return JSON.parse(readFileSync(file, "utf8")).packages ?? null;
  } catch {
    // Missing or torn: then it has to be installed anew.
    return null;
  }
};

const cures = [
  [
    /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT)\b/,
    "The package registry cannot be reached: is there a network, and does `npm ping` answer?",
  ],
  [
    /SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|UNABLE_TO_VERIFY/,
    "npm does not know who signed the registry's certificate: `npm config set cafile FILE` names your company's.",
  ],
  [/\b(EROFS|EACCES|EPERM)\b/, "The directory, or npm's cache, cannot be written to by this user."],
  [/\bENOSPC\b/, "The disk is full."],
  [
    /can only install packages when your package.json and package-lock.json/,
    "package.json and package-lock.json do not agree: run `npm install` and look at the difference.",
  ],
  [
    /\bnpm was not found\b/,
    "npm is needed beside Node; it comes with Node's own builds and is Debian's package npm.",
  ],
];

const cureOf = (output) => cures.find(([pattern]) => pattern.test(output))?.[1] ?? "";

const explain = (output) => {
  const lines = output.trim().split("\n");
  const tail = lines.filter((line) => !line.startsWith("npm http ")).slice(-25);
  return `${tail.join("\n")}\n\nThe packages could not be installed (npm ci, its last words are above). ${cureOf(output)}`.trimEnd();
};
