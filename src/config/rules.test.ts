import { loadBridgeSettings } from "./bridge-settings.ts";
import { describe, expect, it } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { isLoopbackHost } from "./formats.ts";
import { loadSettings } from "./settings.ts";

const home = await temporaryDirectory();
const load = (env: NodeJS.ProcessEnv) => loadSettings({ env, home });
const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7Zq9\n-----END RSA PRIVATE KEY-----\n";

describe("listening beyond loopback", () => {
  it.each(["0.0.0.0", "::", "192.168.1.4", "build-box"])("on %s is refused without keys", (SERVICE_HOST) => {
    expect(() => load({ SERVICE_HOST })).toThrow(/SERVICE_ALLOW_OPEN=true/);
    expect(load({ SERVICE_HOST, SERVICE_API_KEYS: "a-long-enough-key" }).warnings).toEqual([]);
  });

  it("without keys is warned of when it is allowed", () => {
    const { warnings } = load({ SERVICE_HOST: "0.0.0.0", SERVICE_ALLOW_OPEN: "true" });
    expect(warnings).toEqual([expect.stringContaining("whoever reaches it can run code here")]);
  });

  it("does not concern a command that asks a server elsewhere", () => {
    const env = { SERVICE_HOST: "build-box", SERVICE_API_KEY: "a-long-enough-key" };
    expect(loadSettings({ env, home, role: "client" }).settings.host).toBe("build-box");
  });

  it("is distinguished from loopback by the address", () => {
    for (const host of ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
      expect(isLoopbackHost(host)).toBe(true);
    for (const host of ["127.0.0.1.evil.dev", "0.0.0.0", "128.0.0.1", "::", "localhost.evil.dev"])
      expect(isLoopbackHost(host)).toBe(false);
  });
});

it("local repositories are permitted exactly when listening on loopback without keys, by default", () => {
  expect(load({}).settings.allowLocalRepos).toBe(true);
  const keyed = { SERVICE_API_KEYS: "a-long-enough-key" };
  expect(load(keyed).settings.allowLocalRepos).toBe(false);
  expect(load({ ...keyed, SERVICE_ALLOW_LOCAL_REPOS: "true" }).settings.allowLocalRepos).toBe(true);
  expect(load({ SERVICE_ALLOW_LOCAL_REPOS: "false" }).settings.allowLocalRepos).toBe(false);
  const open = { SERVICE_HOST: "0.0.0.0", SERVICE_API_KEYS: "a-long-enough-key" };
  expect(load(open).settings.allowLocalRepos).toBe(false);
  expect(load({ ...open, SERVICE_ALLOW_LOCAL_REPOS: "true" }).settings.allowLocalRepos).toBe(true);
});

it("a short key is taken with a warning that does not show it", () => {
  const { settings, warnings } = load({ SERVICE_API_KEYS: "a-long-enough-key, abc" });
  expect(settings.apiKeys).toEqual(["a-long-enough-key", "abc"]);
  expect(warnings).toEqual([expect.stringContaining("key number 2 has fewer than 16 characters")]);
  expect(warnings.join()).not.toContain("abc");
});

it("of the transcript service, too", () => {
  const { warnings } = loadBridgeSettings({ BRIDGE_API_KEYS: "a-long-enough-key, abc" });
  expect(warnings).toEqual(["BRIDGE_API_KEYS: key number 2 has fewer than 16 characters and can be guessed"]);
});

describe("the app of the git host", () => {
  const app = { GIT_HOST_APP_ID: "12", GIT_HOST_APP_INSTALLATION_ID: "34" };

  it("is taken with its installation and one form of its key", () => {
    expect(load({ ...app, GIT_HOST_APP_PRIVATE_KEY: pem }).settings.gitHostAppPrivateKey).toBe(pem.trim());
    const escaped = pem.trim().replaceAll("\n", "\\n");
    expect(load({ ...app, GIT_HOST_APP_PRIVATE_KEY: escaped }).settings.gitHostAppPrivateKey).toBe(
      pem.trim(),
    );
    const base64 = Buffer.from(pem).toString("base64");
    expect(
      load({ ...app, GIT_HOST_APP_PRIVATE_KEY_BASE64: base64 }).settings.gitHostAppPrivateKeyBase64,
    ).toBe(base64);
  });

  it("is refused without installation, without key, with two keys, or when only parts of it are there", () => {
    const key = { GIT_HOST_APP_PRIVATE_KEY: pem };
    expect(() => load({ GIT_HOST_APP_ID: "12", ...key })).toThrow(/without GIT_HOST_APP_INSTALLATION_ID/);
    expect(() => load(app)).toThrow(/without the app's key; set one of GIT_HOST_APP_PRIVATE_KEY_PATH/);
    expect(() => load({ ...app, ...key, GIT_HOST_APP_PRIVATE_KEY_PATH: "/key.pem" })).toThrow(
      /keep exactly one/,
    );
    expect(() => load(key)).toThrow(/GIT_HOST_APP_PRIVATE_KEY set without GIT_HOST_APP_ID/);
  });
});

it("the service's own secrets cannot be handed to the agent", () => {
  expect(load({ SERVICE_AGENT_ENV: "NPM_TOKEN" }).settings.agentEnv).toEqual(["NPM_TOKEN"]);
  expect(() => load({ SERVICE_AGENT_ENV: "NPM_TOKEN,GIT_HOST_TOKEN" })).toThrow(
    /GIT_HOST_TOKEN, which is never/,
  );
});

describe("variables without effect", () => {
  it("that are deprecated are named with the reason", () => {
    expect(load({ SERVICE_AGENT_CLI_CONFIG_DIR: "/x" }).warnings).toEqual([
      "SERVICE_AGENT_CLI_CONFIG_DIR is deprecated and has no effect: each job has a config directory of its own",
    ]);
  });

  it("that look like a slip of the pen are named with the nearest variable", () => {
    const { warnings } = load({
      SERVICE_MAX_PARALEL_JOBS: "2",
      GIT_HOST_TOKN: "x",
      AGENT_MODE_TIMOUT: "5",
      SERVICE_JOB_ID: "1",
      PATH: "/bin",
    });
    expect(warnings).toEqual([
      expect.stringMatching(/^SERVICE_MAX_PARALEL_JOBS is not .*did you mean SERVICE_MAX_PARALLEL_JOBS\?$/),
      expect.stringMatching(/^GIT_HOST_TOKN is not .*did you mean GIT_HOST_TOKEN\?$/),
      expect.stringMatching(/^AGENT_MODE_TIMOUT is not .*did you mean AGENT_MODE_TIMEOUT\?$/),
    ]);
  });
});

it("an agent of the hub is named as without effect while agent mode is off", () => {
  const off = load({ HUB_AGENT: "writer" }).warnings;
  expect(off).toEqual(["HUB_AGENT has no effect without agent mode: set AGENT_MODE=true as well"]);
  expect(load({ HUB_AGENT: "writer", AGENT_MODE: "true" }).warnings).toEqual([]);
});

it("both keys of a tracing backend are enough for the vendor's cloud; other credentials need its address", () => {
  const keys = { TRACING_PUBLIC_KEY: "pk-1234567", TRACING_SECRET_KEY: "sk-1234567" };
  const host = (env: NodeJS.ProcessEnv) => load(env).settings.tracingHost;
  expect(host(keys)).toBe("https://cloud.langfuse.com");
  expect(host({ ...keys, TRACING_HOST: "https://traces.example" })).toBe("https://traces.example");
  expect(load(keys).warnings).toEqual([]);
  const half = load({ TRACING_PUBLIC_KEY: "pk-1234567" });
  const basic = load({ TRACING_BASIC_AUTH: "cGstMTIzNDU2Nzpzay0xMjM0NTY3" });
  expect([half.settings.tracingHost, basic.settings.tracingHost]).toEqual([null, null]);
  expect(half.warnings).toEqual([expect.stringMatching(/^Only one of TRACING_PUBLIC_KEY/)]);
  expect(basic.warnings).toEqual([expect.stringMatching(/no trace is sent: name its address/)]);
});
