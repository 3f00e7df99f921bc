import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { parseEnv } from "node:util";
import { loadSettings } from "../../config/settings.ts";
import type { Variable } from "../../config/variable.ts";
import { variables } from "../../config/variables.ts";
import { baseUrlOf } from "../connect.ts";
import { container, findEnvFile, image, requireTool, statusOf } from "../container-tool.ts";
import { CliError, exitCode, type ExitCode } from "../failure.ts";
import { note, print } from "../print.ts";

/** `svc agent --run`: starts the service in a container. Values are in no argument and in no file. */
export const run = async (tool: string): Promise<ExitCode> => {
  const env = await readEnvironment();
  const { settings } = loadSettings({ env, role: "client" });
  const { port, apiKey, apiKeys, agentEnv } = settings;
  const url = baseUrlOf({ host: "127.0.0.1", port });
  const status = await statusOf(tool);
  if (status !== null)
    throw new CliError(
      `There is a container ${container} already (${status}): svc agent --logs shows its log, svc agent --stop removes it`,
    );
  if ((await requireTool(tool, ["images", "--quiet", image], { stdout: "pipe" })).trim() === "")
    throw new CliError(`There is no image ${image} on this machine: build it with svc agent --build`);

  const newKey = apiKeys.length > 0 || apiKey !== null ? null : randomBytes(24).toString("hex");
  const given = {
    SERVICE_POD_NAME: `container-${hostname()}`,
    ...serviceVariables(env),
    SERVICE_API_KEYS: apiKeys.join(",") || (apiKey ?? newKey ?? ""),
  };
  // Of the shell only: an .env that somebody else wrote must not choose variables of the tool itself.
  const further = Object.keys(process.env).filter((name) => isProxy.test(name) || agentEnv.includes(name));
  const grace = settings.drainTimeout + settings.agentCliKillGrace + 30;
  const args = [
    ...`run --detach --pull never --name ${container} --publish 127.0.0.1:${port}:8200`.split(" "),
    ..."--volume svc-home:/var/lib/svc --tmpfs /tmp:rw,exec,nosuid,nodev,size=2g,mode=1777".split(" "),
    ...`--read-only --cap-drop ALL --security-opt no-new-privileges --pids-limit 4096 --stop-timeout ${grace}`.split(
      " ",
    ),
    ...[...Object.keys(given), ...further].flatMap((name) => ["--env", name]),
    image,
  ];
  await requireTool(tool, args, { stdout: "pipe", env: { ...process.env, ...given } });
  const shown = [
    port === 8200 ? "" : `SERVICE_PORT=${port} `,
    newKey === null ? "" : `SERVICE_API_KEY=${newKey} `,
  ];
  print(
    `Address  ${url}${newKey === null ? "" : `\nAPI key  ${newKey}`}\nNext     ${shown.join("")}svc status`,
  );
  return exitCode.ok;
};

/** The service's own among these variables. Says which it leaves out because they name paths of this machine. */
const serviceVariables = (env: NodeJS.ProcessEnv): Record<string, string> => {
  const setIn = (ones: Variable[]) => ones.flatMap(namesOf).filter((name) => env[name] !== undefined);
  const all = Object.values<Variable>(variables).filter((one) => !ofMachine.has(one));
  const left = setIn(all.filter(({ isPath }) => isPath));
  if (left.length > 0) note(`svc: not handed in, since they are paths of this machine: ${left.join(", ")}`);
  return Object.fromEntries(
    setIn(all.filter(({ isPath }) => !isPath)).map((name) => [name, env[name] ?? ""]),
  );
};

const { host, port, transport, apiKey, agentCliBinary, agentEnv } = variables;
const isProxy = /^(https?|all|no)_proxy$/i;
const ofMachine = new Set<Variable>([host, port, transport, apiKey, agentCliBinary]);

/** Variables of the shell, and the service's of `.env` that it does not set; empty ones are left out. */
const readEnvironment = async (): Promise<NodeJS.ProcessEnv> => {
  const shell = withoutEmpty(process.env);
  const file = await findEnvFile();
  if (file === null) return shell;
  const ofFile = withoutEmpty(parseEnv(await readFile(file, "utf8")));
  const all = Object.values<Variable>(variables);
  const isOurs = new Set(all.flatMap(namesOf));
  const found = Object.keys(ofFile).filter((name) => isOurs.has(name) && !(name in shell));
  // Somebody else may have written the file, and would get the secrets of the shell by these.
  const hasSecret = all
    .filter(({ secret }) => secret)
    .flatMap(namesOf)
    .some((name) => name in shell);
  const unsafe = new Set([agentEnv, ...(hasSecret ? addresses : [])].flatMap(namesOf));
  const [taken, refused] = [
    found.filter((name) => !unsafe.has(name)),
    found.filter((name) => unsafe.has(name)),
  ];
  note(`svc: taken over from ${file}: ${taken.join(", ") || "nothing"}`);
  if (refused.length > 0)
    note(
      `svc: not taken over, since only the shell may choose where its secrets go: ${refused.join(", ")}. Set them in the shell`,
    );
  return { ...Object.fromEntries(taken.map((name) => [name, ofFile[name]])), ...shell };
};

const withoutEmpty = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(env).filter(([, value = ""]) => value.trim() !== ""));

const namesOf = ({ name, fallbacks }: Variable): string[] => [name, ...fallbacks];

/** Where credentials go. */
const addresses: Variable[] = [variables.modelBaseUrl, variables.gitHost, variables.tracingHost];
