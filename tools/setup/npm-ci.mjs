import { spawnSync } from "node:child_process";
import { dependenciesMatch } from "./dependencies.mjs";

/** Run under the lock, so that it is asked again whether there is anything left to do: `node npm-ci.mjs ROOT`. */
const [root = "."] = process.argv.slice(2);

// What was set for other purposes (NODE_ENV=production, npm's omit) must not leave out what the tests and the demo run on,
// and the Node that runs npm need not be the one the project runs on.
const flags =
  "--include=dev --include=optional --engine-strict=false --no-audit --no-fund --no-progress --loglevel=http".split(
    " ",
  );

/** The npm that started us, if one did, else the one on PATH. */
const npm = process.env.npm_execpath?.endsWith(".js")
  ? [process.execPath, process.env.npm_execpath]
  : ["npm"];

if (!dependenciesMatch(root)) {
  const [program, ...args] = [...npm, "ci", ...flags];
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: "inherit" });
  if (error) console.error(error.code === "ENOENT" ? "npm was not found" : error.message);
  process.exitCode = status ?? 1;
}
