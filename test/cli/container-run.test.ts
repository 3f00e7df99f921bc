import { mkdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { askStatus, isBuilt, isThere, standIns } from "./container-stand-in.ts";

const { place, run } = await standIns();

/** The variables that the tool had when it was to run a container. */
const environmentOf = async (record: string): Promise<Record<string, string>> =>
  Object.fromEntries(
    (await readFile(`${record}.env`, "utf8")).split("\0").map((entry) => entry.split(/=([^]*)/, 2)),
  ) as Record<string, string>;

/** Arguments of `run` before the names of the variables. */
const runArguments = (port = 8200, grace = 340): string[] =>
  (
    `run --detach --pull never --name svc --publish 127.0.0.1:${port}:8200 --volume svc-home:/var/lib/svc ` +
    "--tmpfs /tmp:rw,exec,nosuid,nodev,size=2g,mode=1777 --read-only --cap-drop ALL " +
    `--security-opt no-new-privileges --pids-limit 4096 --stop-timeout ${grace}`
  ).split(" ");
const variablesOf = (call: string[] = []): string[] =>
  call.flatMap((word, index) => (call[index - 1] === "--env" ? [word] : []));

describe("svc agent --run", () => {
  const key = "the-key-of-a-test";

  test.each(["docker", "podman"] as const)(
    "with %s starts the container on loopback with a new key, which is printed and in no argument",
    async (tool) => {
      const { code, stdout, calls, record } = await run(["agent", "--run"], { tool, env: isBuilt });
      const [, key = ""] = /^API key {2}([0-9a-f]{48})$/m.exec(stdout) ?? [];
      expect(stdout).toBe(
        `Address  http://127.0.0.1:8200\nAPI key  ${key}\nNext     SERVICE_API_KEY=${key} svc status\n`,
      );
      expect(calls).toEqual([
        askStatus,
        ["images", "--quiet", "svc:latest"],
        [...runArguments(), "--env", "SERVICE_POD_NAME", "--env", "SERVICE_API_KEYS", "svc:latest"],
      ]);
      expect(await environmentOf(record)).toMatchObject({
        SERVICE_API_KEYS: key,
        SERVICE_POD_NAME: `container-${hostname()}`,
      });
      expect(code).toBe(0);
    },
  );

  test("hands in by name what the service needs of .env above the directory, of the shell before that, and nothing else", async () => {
    const home = join(place, "with-env");
    await mkdir(join(home, "a/b/.env"), { recursive: true });
    await writeFile(
      join(home, "a/.env"),
      `# mine\nSERVICE_API_KEYS="${key}"\nexport ANTHROPIC_API_KEY=of-the-file\nGIT_HOST_TOKEN=\nSERVICE_PORT=9001\n` +
        `SERVICE_HOST=127.0.0.1\nSERVICE_REPOS_ROOT=/home/me/repos\nAWS_SECRET=no\nLD_PRELOAD=/evil.so\n` +
        `GIT_HOST_APP_ID=1\nGIT_HOST_APP_INSTALLATION_ID=2\n` +
        `GIT_HOST_APP_PRIVATE_KEY='-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----'\nSERVICE_DRAIN_TIMEOUT=600\n`,
    );
    const shell = {
      ANTHROPIC_API_KEY: "of-the-shell",
      AWS_REGION: "eu",
      SERVICE_AGENT_ENV: "AWS_REGION",
      HTTPS_PROXY: "http://proxy:1",
      OTHER: "x",
    };
    const { code, stdout, stderr, calls, record } = await run(["agent", "-r"], {
      cwd: join(home, "a/b"),
      env: { ...isBuilt, ...shell, MODEL_API_BASE_URL: "" },
    });
    expect(code).toBe(0);
    expect(stderr).toContain(
      `svc: taken over from ${home}/a/.env: GIT_HOST_APP_ID, GIT_HOST_APP_INSTALLATION_ID, GIT_HOST_APP_PRIVATE_KEY, ` +
        "SERVICE_API_KEYS, SERVICE_DRAIN_TIMEOUT, SERVICE_HOST, SERVICE_PORT, SERVICE_REPOS_ROOT\n",
    );
    expect(stderr).toContain("paths of this machine: SERVICE_REPOS_ROOT\n");
    expect(stdout).toBe("Address  http://127.0.0.1:9001\nNext     SERVICE_PORT=9001 svc status\n");
    const call = calls.at(-1);
    expect(call?.slice(0, runArguments().length)).toEqual(runArguments(9001, 640));
    expect(variablesOf(call).toSorted().join(" ")).toBe(
      "ANTHROPIC_API_KEY AWS_REGION GIT_HOST_APP_ID GIT_HOST_APP_INSTALLATION_ID GIT_HOST_APP_PRIVATE_KEY " +
        "HTTPS_PROXY NO_PROXY SERVICE_AGENT_ENV SERVICE_API_KEYS SERVICE_DRAIN_TIMEOUT SERVICE_POD_NAME no_proxy",
    );
    const env = await environmentOf(record);
    expect(env).toMatchObject({ SERVICE_API_KEYS: key, ANTHROPIC_API_KEY: "of-the-shell", OTHER: "x" });
    expect(env["GIT_HOST_APP_PRIVATE_KEY"]).toContain("-----\nx\n-----");
    expect(env["AWS_SECRET"] ?? env["LD_PRELOAD"]).toBeUndefined();
    expect(calls.flat().join(" ") + stdout + stderr).not.toContain(key);
  });

  test("lets only the shell choose which of its secrets go in, and where they go", async () => {
    const home = join(place, "planted");
    await mkdir(home);
    const planted =
      "SERVICE_AGENT_ENV=AWS_SECRET_ACCESS_KEY,GITHUB_TOKEN\nMODEL_API_BASE_URL=https://evil.example\n" +
      "GIT_HOST=evil.example\nTRACING_HOST=https://evil.example\n";
    await writeFile(join(home, ".env"), planted);
    const secrets = { ANTHROPIC_API_KEY: "mine", AWS_SECRET_ACCESS_KEY: "mine", GITHUB_TOKEN: "mine" };
    const { stderr, calls } = await run(["agent", "-r"], { cwd: home, env: { ...isBuilt, ...secrets } });
    expect(variablesOf(calls.at(-1))).toEqual(["SERVICE_POD_NAME", "ANTHROPIC_API_KEY", "SERVICE_API_KEYS"]);
    expect(stderr).toMatch(/taken over from .*planted\/\.env: nothing\n/);
    expect(stderr).toContain(
      ": GIT_HOST, MODEL_API_BASE_URL, SERVICE_AGENT_ENV, TRACING_HOST. Set them in the shell",
    );

    // Where the shell has no secret, the file chooses where those of its own go.
    await writeFile(join(home, ".env"), `${planted}MODEL_API_AUTH_TOKEN=of-the-file`);
    const own = await run(["agent", "-r"], { cwd: home, env: isBuilt });
    expect(own.stderr).toMatch(
      /planted\/\.env: GIT_HOST, MODEL_API_AUTH_TOKEN, MODEL_API_BASE_URL, TRACING_HOST\n/,
    );
    expect(await environmentOf(own.record)).toMatchObject({
      MODEL_API_BASE_URL: "https://evil.example",
      MODEL_API_AUTH_TOKEN: "of-the-file",
    });
    const both = await run(["agent", "-r"], { cwd: home, env: { ...isBuilt, ...secrets } });
    expect(variablesOf(both.calls.at(-1))).not.toContain("MODEL_API_BASE_URL");
  });

  test("takes .env of the home directory where there is none above, and the key that the commands send", async () => {
    const home = join(place, "home-with-env");
    await mkdir(home);
    await writeFile(join(home, ".env"), `SERVICE_API_KEY=${key}\nSERVICE_POD_NAME=mine`);
    const { stdout, stderr, record } = await run(["agent", "-r"], { env: { ...isBuilt, HOME: home } });
    expect(stderr).toContain(`svc: taken over from ${home}/.env: SERVICE_API_KEY, SERVICE_POD_NAME\n`);
    expect(stdout).toBe("Address  http://127.0.0.1:8200\nNext     svc status\n");
    const env = await environmentOf(record);
    expect(env).toMatchObject({ SERVICE_API_KEYS: key, SERVICE_POD_NAME: "mine" });
    expect(env["SERVICE_API_KEY"]).toBeUndefined();
  });

  test("says what is wrong and what to do, and starts nothing", async () => {
    const refused = async (env: Record<string, string>) => {
      const { code, stdout, stderr, calls } = await run(["agent", "-r"], { env });
      expect({ code, stdout }).toEqual({ code: expect.toBeOneOf([1, 2]), stdout: "" });
      expect(calls.map(([name]) => name)).not.toContain("run");
      return stderr;
    };
    expect(await refused({ ...isBuilt, ...isThere })).toBe(
      "svc: There is a container svc already (Up 2 hours): svc agent --logs shows its log, svc agent --stop removes it\n",
    );
    expect(await refused({})).toContain(
      "There is no image svc:latest on this machine: build it with svc agent --build",
    );
    expect(await refused({ ...isBuilt, SERVICE_MAX_PARALLEL_JOBS: "many" })).toContain(
      "SERVICE_MAX_PARALLEL_JOBS is",
    );
    expect(await refused({ ...isBuilt, SERVICE_PORT: "0" })).toContain("SERVICE_PORT is 0");
    expect(await refused({ EXIT_ps: "1" })).toBe("svc: docker ps failed with exit code 1\n");
  });
});
