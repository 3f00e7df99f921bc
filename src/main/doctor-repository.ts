import { mkdtemp } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { companionsDirectory, createCompanions } from "../companions/companions.ts";
import type { Settings } from "../config/variables.ts";
import type { Check } from "../contract/instance.ts";
import { runCommand } from "../lib/command.ts";
import { createLog } from "../lib/log.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { missingVersions, reachOf, type Setup, setupOf, versionScript } from "../place/plan.ts";
import { readContained } from "../profiles/contained.ts";
import { createProfiles } from "../profiles/profiles.ts";
import { allowedOf, boundaryOf } from "../profiles/sandbox-policy.ts";
import { parseSetupFile, setupFile, type SetupKeys } from "../profiles/setup.ts";
import { createRepos } from "../repos/create.ts";
import { createSandbox } from "../sandbox/sandbox.ts";

type Asked = {
  settings: Settings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  repoUrl: string;
  /** Empty: the default branch. */
  baseRef: string;
  /** `auto`: the one that a job without a task gets. */
  profile: string;
};

/**
 * What a job of the repository would get, by its files at the base as they are now at the remote.
 * @throws Error with a sentence when that cannot be found out
 */
export const diagnoseRepository = async (asked: Asked): Promise<Check[]> => {
  const { settings, env, signal } = asked;
  const repos = createRepos({ settings, env });
  const repoUrl = repos.parseUrl(asked.repoUrl);
  const home = homedir();
  const directory = companionsDirectory(home);
  const log = createLog("silent", String);
  const checkOut = repos.checkOutFiles;
  const companions = createCompanions({ settings, directory, checkOut, now: () => new Date(), log });
  const boundary = boundaryOf(settings, home);
  const profiles = createProfiles({ settings, companions: companions.files, boundary, home, log });
  const profile = await profiles.route({ name: asked.profile, task: "", repoUrl });
  const into = await mkdtemp(join(tmpdir(), "svc-doctor-"));
  try {
    const commit = await checkOut({ url: repoUrl, ref: asked.baseRef, into, signal });
    const root = join(into, commit);
    const file = await readContained({ root, path: join(root, setupFile), maxBytes: 65_536 });
    const isTrusted = settings.setupUnsandboxed || (await isSandboxed(settings));
    const keys = file === null || !isTrusted ? null : parseSetupFile(file.bytes.toString("utf8"));
    const setup = profile.readOnly ? null : setupOf(keys, profile.setupFor(repoUrl));
    const named = `${profile.name} (${profile.rule}), ${commit.slice(0, 12)} of ${asked.baseRef || "the default branch"}`;
    return [
      ok("job", named),
      ...(file !== null && !isTrusted ? [warning("setup file", leftOut)] : []),
      ok("setup", setup === null ? noneOf(profile.readOnly) : setupText(setup, keys)),
      ...(setup === null ? [] : [hosts(setup, settings), await versions(setup, asked)].flat()),
    ];
  } finally {
    await removeTree(into);
  }
};

const ok = (name: string, message: string): Check => ({ name, status: "ok", message });

const warning = (name: string, message: string): Check => ({ name, status: "warning", message });

const leftOut = `${setupFile} is left out, because agents have no sandbox: see SERVICE_SETUP_UNSANDBOXED`;

const noneOf = (readOnly: boolean): string =>
  readOnly ? "None: the profile may only read" : `None: neither ${setupFile} nor the profile says one`;

const isSandboxed = async ({ agentSandbox }: Settings): Promise<boolean> =>
  (await createSandbox(agentSandbox)).sandbox.mode !== "off";

const setupText = ({ run, services, each, env, cache, timeout }: Setup, file: SetupKeys | null): string =>
  [
    file === null ? "Of the profile" : `Of ${setupFile}, and the profile`,
    ...[...run, ...each].map((command) => `$ ${command}`),
    ...services.map(({ name }) => `service ${name}`),
    ...Object.keys(env).map((name) => `${name} is set`),
    ...(cache === null ? [] : [`${cache.paths.join(", ")} kept by ${cache.key.join(", ")}`]),
    `at most ${timeout} s`,
  ].join("; ");

const hosts = (setup: Setup, { setupHosts, agentSandboxHosts }: Settings): Check[] => {
  const agent = allowedOf({ hosts: agentSandboxHosts, read: [], write: [] }, null);
  const { allowed, refused } = reachOf(setup, agent, setupHosts);
  const reached = allowed.openNetwork
    ? "every host"
    : [...new Set(allowed.hosts.map(({ name }) => name))].join(", ");
  return [
    ok("setup hosts", reached || "None"),
    ...(refused.length === 0
      ? []
      : [
          warning(
            "refused",
            `${refused.join(", ")}: allow them in sandbox.hosts of the profile, or SERVICE_SETUP_HOSTS`,
          ),
        ]),
  ];
};

const versions = async ({ versions: wanted }: Setup, { env, signal }: Asked): Promise<Check[]> => {
  if (Object.keys(wanted).length === 0) return [];
  const args = ["-c", versionScript(wanted)];
  const path = { PATH: env["PATH"] ?? "", HOME: "/dev/null" };
  const said = await runCommand({ command: "sh", args, cwd: "/", env: path, timeoutSeconds: 60, signal });
  const missing = missingVersions(wanted, said.stdout);
  return missing.length === 0
    ? [ok("versions", "As the setup wants them")]
    : [{ name: "versions", status: "fault", message: `Not there: ${missing.join(", ")}` }];
};
