import { execFile } from "node:child_process";
import { cp, mkdir, readdir, readFile, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { validate, ValidationSeverity } from "dockerfile-utils";
import { beforeAll, describe, expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { spawnService } from "../service-process.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";
import {
  copiedFromRepository,
  froms,
  imageEnvironment,
  instructions,
  readContainerfile,
} from "./containerfile.ts";
import { find, render, serviceContainer, serviceSet } from "./rendered.ts";
import { startRedis } from "../redis.ts";
import type { IJob } from "kubernetes-models/batch/v1/Job";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..", "..");

const lockedVersion = async (name: string): Promise<string | undefined> => {
  const { packages } = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version: string }>;
  };
  return packages[`node_modules/${name}`]?.version;
};

describe("the Containerfile", () => {
  test("has nothing that a linter minds", async () => {
    const strict = ValidationSeverity.ERROR;
    const rules =
      "deprecatedMaintainer directiveCasing emptyContinuationLine instructionCasing instructionCmdMultiple instructionEntrypointMultiple instructionHealthcheckMultiple instructionJSONInSingleQuotes instructionWorkdirRelative";
    const settings = Object.fromEntries(rules.split(" ").map((rule) => [rule, strict]));
    expect(validate(await readContainerfile(), settings).map(({ message }) => message)).toEqual([]);
    expect(validate("FROM debian\nRNU true\n", settings).map(({ message }) => message)).toEqual([
      "Unknown instruction: RNU",
    ]);
  });

  test("builds on images of Debian 13, whose gh keeps the token to its host, or on those that the builder names", async () => {
    expect((await froms()).map((from) => from.getImage())).toEqual(["$BUILD_IMAGE", "$BASE_IMAGE"]);
    expect(await instructions("ARG")).toEqual([
      "BUILD_IMAGE=node:24-trixie-slim",
      "BASE_IMAGE=debian:trixie-slim",
    ]);
  });

  test("downloads nothing but from Debian and npm", async () => {
    const steps = (await instructions("RUN"))
      .join(" && ")
      .split(/&&/)
      .map((step) => step.trim());
    expect(
      steps.filter((step) => /\b(curl|wget|https?:|git clone|pip|npx|npm (install|i|exec))\b/.test(step)),
    ).toEqual([]);
    expect(steps.filter((step) => step.startsWith("npm "))).toEqual([
      "npm ci --ignore-scripts --include=dev --include=optional --no-audit --no-fund",
      "npm run build",
    ]);
    expect(await instructions("ADD")).toEqual([]);
  });

  test("installs programs that Debian has, and leaves no lists behind", async () => {
    const [step = ""] = await instructions("RUN", 1);
    const packages = /--no-install-recommends ([a-z0-9 -]+?) &&/.exec(step)?.[1]?.split(" ") ?? [];
    expect(packages).toEqual(
      expect.arrayContaining("bubblewrap ca-certificates gh git openssh-client socat tini".split(" ")),
    );
    const known = (await run("apt-cache", ["pkgnames"], { maxBuffer: 50_000_000 })).stdout.split("\n");
    // Without its lists a machine knows only what is installed on it.
    const listed = known.length > 20_000 ? packages : [];
    expect(listed.filter((name) => !known.includes(name))).toEqual([]);
    expect(step).toContain("rm -rf /var/lib/apt/lists/*");
  });

  test("runs the service as a user with a number of its own, the one that the Kubernetes manifests name", async () => {
    const [user = ""] = await instructions("USER");
    expect(user).toMatch(/^(\d+):\1$/);
    const id = Number(user.split(":")[0]);
    const context = serviceSet(await render("single")).spec?.template.spec?.securityContext;
    expect(context).toMatchObject({ runAsUser: id, runAsGroup: id, fsGroup: id });
    const [step] = await instructions("RUN", 1);
    expect(step).toContain(`useradd --uid ${id} --gid ${id}`);
    expect(step).toContain(
      `install --directory --owner=${id} --group=${id} --mode=0700 /var/lib/svc /shared`,
    );
  });

  test("has an init as process 1 and asks the service itself for its health", async () => {
    expect(await instructions("ENTRYPOINT")).toEqual(['["/usr/bin/tini", "--", "svc"]']);
    expect(await instructions("CMD")).toEqual(['["serve"]']);
    expect((await instructions("HEALTHCHECK"))[0]).toContain("/health");
  });

  test("names no secret", async () => {
    const names = Object.keys(await imageEnvironment());
    expect(names).toContain("SERVICE_HOST");
    expect(names.filter((name) => /KEY|TOKEN|PASSWORD|SECRET|KV_URL|ALLOW_OPEN/.test(name))).toEqual([]);
  });

  test("copies what there is and what .dockerignore lets in, which is little", async () => {
    const rules = (await readFile(join(root, ".dockerignore"), "utf8"))
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
    expect(rules[0]).toBe("*");
    const sources = (await copiedFromRepository()).flatMap((copy) => copy.sources);
    expect(rules.filter((rule) => rule.startsWith("!")).toSorted()).toEqual(
      sources.map((source) => `!${source}`).toSorted(),
    );
    for (const source of sources)
      expect((await stat(join(root, source))).isFile() || !source.includes(".")).toBe(true);
  });
});

/** `/out` of the build, made by the very commands of the Containerfile; only the installed packages are those of this checkout. */
describe("the steps of the build, run here", () => {
  let out: string;
  let environment: Record<string, string>;

  beforeAll(async () => {
    const place = await temporaryDirectory();
    const build = join(place, "build");
    out = join(place, "out");
    await mkdir(build);
    for (const { sources, target } of await copiedFromRepository())
      for (const source of sources)
        await cp(join(root, source), join(build, target.endsWith("/") ? join(target, source) : target), {
          recursive: true,
        });
    await symlink(join(root, "node_modules"), join(build, "node_modules"));
    const [, steps = ""] = await instructions("RUN", 0);
    await run("sh", ["-ec", steps.replaceAll("/out", out)], { cwd: build, maxBuffer: 10_000_000 });
    environment = { ...(await imageEnvironment()), HOME: join(place, "home") };
    environment["PATH"] = (environment["PATH"] ?? "").replace("/opt/svc", out);
    await mkdir(environment["HOME"] ?? "");
  });

  /** Runs a program as the image would, with these variables besides its own. */
  const inImage = async (command: string[], variables: Record<string, string> = {}): Promise<string> => {
    const pairs = Object.entries({ ...environment, ...variables }).map(([key, value]) => `${key}=${value}`);
    return (await run("env", ["-i", ...pairs, ...command])).stdout;
  };

  test("give a program, a Node and an agent CLI of the versions that package-lock.json pins", async () => {
    const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
    expect(await inImage(["svc", "version"])).toBe(`svc ${version}\n`);
    expect(await inImage(["node", "--version"])).toBe(
      `v${await lockedVersion(`node-linux-${process.arch}`)}\n`,
    );
    expect(await inImage(["claude", "--version"])).toContain(
      `${await lockedVersion("@anthropic-ai/claude-code")} `,
    );
  });

  test("give a service that does not start without a key", async () => {
    await expect(inImage(["svc", "serve"])).rejects.toMatchObject({
      stderr: expect.stringContaining("SERVICE_API_KEYS is not set") as unknown,
    });
  });

  test("give a service that the image's health check finds healthy, and unhealthy once it has stopped", async () => {
    const service = await spawnService({
      home: environment["HOME"] ?? "",
      program: [join(out, "bin", "node"), join(out, "dist", "svc.mjs")],
      env: { SERVICE_HOST: "127.0.0.1", SERVICE_API_KEYS: "0123456789abcdef" },
    });
    afterFile(() => service.kill());
    const [check = ""] = await instructions("HEALTHCHECK");
    const command = JSON.parse(check.slice(check.indexOf("["))) as string[];
    const variables = { SERVICE_PORT: new URL(service.url).port };
    await inImage(command, variables);
    await service.stop();
    await expect(inImage(command, variables)).rejects.toMatchObject({ code: expect.any(Number) as unknown });
  });

  test("lay out a shared file system with the arguments of the Job", async () => {
    const { spec } = find<IJob>(await render("cluster"), "Job", "svc-init-shared-fs");
    const args = spec?.template.spec?.containers[0]?.args ?? [];
    const shared = await temporaryDirectory();
    for (const outcome of ["created", "was there"]) {
      const said = await inImage(["svc", ...args], { SERVICE_SHARED_FS_ROOT: shared });
      expect(said).toMatch(new RegExp(`^${outcome} +${join(shared, "job-state")}$`, "m"));
      expect((await readdir(shared)).toSorted()).toEqual(["job-state", "jobs", "profiles", "repos"]);
    }
  });

  test("drain with the command of the hook, in time when nothing runs", async () => {
    const command = serviceContainer(await render("cluster")).lifecycle?.preStop?.exec?.command ?? [];
    const { url } = await startRedis();
    const instance = { KV_URL: url, SERVICE_POD_NAME: "svc-0" };
    await startService({ env: instance });
    await inImage(command, instance);
    await expect(inImage(command)).rejects.toMatchObject({
      stderr: expect.stringContaining("KV_URL") as unknown,
    });
  });
});
