import { chmod, mkdir, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { ConfigError } from "./config-error.ts";
import { loadSettings } from "./settings.ts";

const homeWith = async (yaml: string): Promise<{ home: string; file: string }> => {
  const home = await temporaryDirectory();
  const file = join(home, ".service", "config.yml");
  await mkdir(join(home, ".service"));
  await writeFile(file, yaml, { mode: 0o600 });
  return { home, file };
};

const empty = await temporaryDirectory();
const load = (env: NodeJS.ProcessEnv) => loadSettings({ env, home: empty });

const faultsOf = (run: () => unknown): readonly string[] => {
  try {
    run();
  } catch (error) {
    if (error instanceof ConfigError) return error.faults;
    throw error;
  }
  return [];
};

describe("where a setting comes from", () => {
  it("is the default when nothing says otherwise", () => {
    const { settings, sources, warnings } = load({});
    expect(settings).toMatchObject({
      host: "127.0.0.1",
      port: 8200,
      jobTtl: 86_400,
      maxParallelJobs: 3,
      agentCliTimeout: 3600,
      apiKeys: [],
      gitHostToken: null,
      otelEnabled: true,
      podName: hostname(),
      jobsDir: join(empty, ".service", "jobs"),
      reposRoot: join(empty, "service-repos"),
      agentHome: empty,
    });
    expect(sources.port).toEqual({ from: "default" });
    expect(warnings).toEqual([]);
  });

  it("is the environment before the file, and the file before the default", async () => {
    const { home, file } = await homeWith("port: 9001\njob_ttl: 60\ngithub:\n  token: from-the-file\n");
    const { settings, sources } = loadSettings({ env: { SERVICE_PORT: "9002" }, home });
    expect(settings).toMatchObject({ port: 9002, jobTtl: 60, gitHostToken: "from-the-file" });
    expect(sources.port).toEqual({ from: "environment", name: "SERVICE_PORT" });
    expect(sources.jobTtl).toEqual({ from: "file", path: file });
    expect(sources.gitHostToken).toEqual({ from: "file", path: file });
  });

  it("is a fallback of the environment when the variable itself is unset", () => {
    const { settings, sources } = load({ MODEL_API_AUTH_TOKEN: "", ANTHROPIC_AUTH_TOKEN: "native" });
    expect(settings.modelAuthToken).toBe("native");
    expect(sources.modelAuthToken).toEqual({ from: "environment", name: "ANTHROPIC_AUTH_TOKEN" });
    expect(load({ GIT_HOST: "git.acme.dev", GH_HOST: "other.dev" }).settings.gitHost).toBe("git.acme.dev");
  });

  it("takes an empty variable, and one of white space, as unset", async () => {
    const { home } = await homeWith("port: 9001\nlog_level:\nhost: ~\n");
    const { settings } = loadSettings({ env: { SERVICE_PORT: "", SERVICE_JOB_TTL: " \n" }, home });
    expect(settings).toMatchObject({ port: 9001, jobTtl: 86_400, logLevel: "info", host: "127.0.0.1" });
  });

  it("drops white space around a value, as a mounted secret has it", () => {
    expect(load({ GIT_HOST_TOKEN: "token\n" }).settings.gitHostToken).toBe("token");
  });

  it("expands a leading ~/ of a path and of nothing else", () => {
    const { settings } = load({ SERVICE_JOBS_DIR: "~/jobs", SERVICE_GIT_AUTHOR_NAME: "~/me" });
    expect(settings).toMatchObject({ jobsDir: join(empty, "jobs"), gitAuthorName: "~/me" });
  });
});

describe("the file", () => {
  it("keeps values as written and takes lists either way", async () => {
    const { home } = await homeWith("api_keys: [0123456789, '1e400000']\nagent_env: FOO, BAR\n");
    const { settings } = loadSettings({ env: {}, home });
    expect(settings).toMatchObject({ apiKeys: ["0123456789", "1e400000"], agentEnv: ["FOO", "BAR"] });
  });

  it("that does not parse is refused with line and column, and without its text", async () => {
    const { home } = await homeWith("port: 1\ngithub:\n  token: 'hunter2\n");
    const [fault, ...more] = faultsOf(() => loadSettings({ env: {}, home }));
    expect(fault).toMatch(/config\.yml is not valid YAML at line \d+, column \d+: /);
    expect(fault).not.toContain("hunter2");
    expect(more).toEqual([]);
  });

  it("with an unknown key is refused, with the place and the nearest known key", async () => {
    const { home } = await homeWith(
      "port: 1\nmax_paralel_jobs: 2\ngithub:\n  tokn: abc\n  token:\n    a: b\n",
    );
    expect(faultsOf(() => loadSettings({ env: {}, home }))).toEqual([
      expect.stringContaining(
        "line 2, column 1: unknown key max_paralel_jobs; did you mean max_parallel_jobs?",
      ),
      expect.stringContaining("line 4, column 3: unknown key github.tokn; did you mean github.token?"),
      expect.stringContaining("github.token must be a single value"),
    ]);
  });

  it("takes the variables' own names as keys, too, and hints at them", async () => {
    const { home } = await homeWith(
      "ANTHROPIC_API_KEY: key\nGIT_HOST_TOKEN: token\nSERVICE_PORT: 1234\nANTHROPIC_BASE_URL: http://127.0.0.1:1\n",
    );
    expect(loadSettings({ env: {}, home }).settings).toMatchObject({
      modelApiKey: "key",
      gitHostToken: "token",
      port: 1234,
      modelBaseUrl: "http://127.0.0.1:1",
    });
    const wrong = await homeWith("port: 1\nSERVICE_PORT: 2\nSERVICE_PROT: 3\n");
    expect(faultsOf(() => loadSettings({ env: {}, ...wrong }))).toEqual([
      expect.stringContaining("port is given twice"),
      expect.stringContaining("unknown key SERVICE_PROT; did you mean SERVICE_PORT?"),
    ]);
  });

  it("that is not a map, gives a key twice, or was named and is missing is refused", async () => {
    const list = await homeWith("- a\n- b\n");
    expect(faultsOf(() => loadSettings({ env: {}, ...list }))).toEqual([
      expect.stringContaining("key: value"),
    ]);
    const twice = await homeWith("github.token: a\ngithub: {token: b}\n");
    expect(faultsOf(() => loadSettings({ env: {}, ...twice }))).toEqual([
      expect.stringContaining("github.token is given twice"),
    ]);
    expect(faultsOf(() => loadSettings({ env: {}, home: empty, file: join(empty, "nowhere.yml") }))).toEqual([
      expect.stringContaining("there is no such file"),
    ]);
  });

  it("with secrets that others can read is warned of", async () => {
    const { home, file } = await homeWith("github: {token: abc}\n");
    expect(loadSettings({ env: {}, home }).warnings).toEqual([]);
    await chmod(file, 0o644);
    expect(loadSettings({ env: {}, home }).warnings).toEqual([expect.stringContaining("chmod 600")]);
  });
});

describe("faults", () => {
  it("are all in one message: the variable, what it is, what is allowed", async () => {
    const { home } = await homeWith("job_ttl: soon\n");
    const env = {
      SERVICE_PORT: "70000",
      SERVICE_LOG_LEVEL: "loud",
      SERVICE_REPOS_ROOT: "repos",
      SERVICE_OTEL_ENABLED: "maybe",
      SERVICE_AGENT_ENV: "A B",
      SERVICE_HOST: "0.0.0.0",
    };
    const run = () => loadSettings({ env, home });
    expect(faultsOf(run)).toEqual([
      'SERVICE_PORT is "70000": it must be at most 65535',
      expect.stringMatching(/^SERVICE_LOG_LEVEL is "loud": it must be one of fatal, error,/),
      expect.stringContaining('SERVICE_AGENT_ENV is "A B": it must be names'),
      expect.stringContaining('config.yml: job_ttl is "soon": it must be a whole number'),
      'SERVICE_REPOS_ROOT is "repos": it must be an absolute path',
      'SERVICE_OTEL_ENABLED is "maybe": it must be true or false',
      expect.stringMatching(/^SERVICE_HOST is 0\.0\.0\.0, which other machines can reach/),
    ]);
    expect(run).toThrow(/7 faults:\n- SERVICE_PORT/);
  });

  it("never hold the value of a secret", () => {
    const env = {
      SERVICE_API_KEYS: "hunter2 x,,hunter2",
      SERVICE_API_KEY: "hunter2 y",
      GIT_HOST_APP_PRIVATE_KEY: "hunter2",
      GIT_HOST_APP_PRIVATE_KEY_BASE64: "hunter2",
      MODEL_API_BASE_URL: "htps://me:hunter2@proxy",
      KV_URL: "http://:hunter2@kv",
    };
    const faults = faultsOf(() => load(env));
    expect(faults.join("\n")).not.toContain("hunter2");
    expect(faults).toEqual([
      expect.stringContaining("SERVICE_API_KEYS has 3 comma-separated entries, of which number 1"),
      expect.stringContaining("of which number 2 is empty"),
      expect.stringContaining("SERVICE_API_KEY must be printable ASCII"),
      expect.stringContaining("MODEL_API_BASE_URL"),
      expect.stringContaining("KV_URL must be redis://"),
      expect.stringContaining("GIT_HOST_APP_PRIVATE_KEY must be PEM text"),
      expect.stringContaining("GIT_HOST_APP_PRIVATE_KEY_BASE64 must be PEM text in base64"),
    ]);
  });
});
