import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ConfigError } from "../../src/config/config-error.ts";
import { loadSettings } from "../../src/config/settings.ts";
import { variables } from "../../src/config/variables.ts";
import { temporaryDirectory } from "../temporary.ts";
import { namesIn, readCompose } from "./composed.ts";
import { imageEnvironment } from "./containerfile.ts";
import {
  configuration,
  deploy,
  objectsIn,
  overlays,
  render,
  serviceContainer,
  type KubernetesObject,
} from "./rendered.ts";

const known = Object.values(variables).map(({ name }) => name);

/** What the pods of an overlay get, with the secrets filled in, over what the image has. */
const podEnvironment = async (overlay: (typeof overlays)[number]): Promise<Record<string, string>> => {
  const objects = await render(overlay);
  const { env = [] } = serviceContainer(objects);
  const withStore = env.some(({ name }) => name === "KV_URL");
  const address = env.find(({ name }) => name === "SERVICE_ADDRESS")?.value;
  return {
    ...(await imageEnvironment()),
    ...configuration(objects),
    SERVICE_POD_NAME: "svc-0",
    SERVICE_ADDRESS: address?.replace("$(POD_IP)", "10.1.2.3") ?? "",
    SERVICE_API_KEYS: "0123456789abcdef",
    ...(withStore && { KV_URL: "redis://:0123456789abcdef@svc-kv:6379" }),
  };
};

const load = async (env: Record<string, string>) => loadSettings({ env, home: await temporaryDirectory() });

describe.each(overlays)("the variables of the overlay %s", (overlay) => {
  test("are known to the service, which starts with them without a warning", async () => {
    const own = serviceContainer(await render(overlay)).env?.map(({ name }) => name) ?? [];
    const names = [...Object.keys(configuration(await render(overlay))), ...own];
    // Only SERVICE_ADDRESS is made of the address of the pod.
    expect(names.filter((name) => !known.includes(name))).toEqual(["POD_IP"]);
    const { settings, warnings } = await load(await podEnvironment(overlay));
    expect(warnings).toEqual([]);
    expect(settings).toMatchObject({
      host: "0.0.0.0",
      port: 8200,
      podName: "svc-0",
      address: "http://10.1.2.3:8200",
      allowLocalRepos: false,
      sharedFsRoot: "/shared",
    });
  });

  test("refuse requests without a key", async () => {
    const { SERVICE_API_KEYS: _, ...open } = await podEnvironment(overlay);
    await expect(load(open)).rejects.toThrow(ConfigError);
    await expect(load(open)).rejects.toThrow("SERVICE_API_KEYS is not set");
  });
});

test("the examples of secrets name variables of the service", async () => {
  const secrets = objectsIn(
    await readFile(join(deploy, "kubernetes", "secrets.example.yaml"), "utf8"),
  ) as (KubernetesObject & {
    stringData: Record<string, string>;
  })[];
  const forPods = Object.keys(
    secrets.find(({ metadata }) => metadata.name === "svc-secrets")?.stringData ?? {},
  );
  const forCompose = await namesIn("service.env.example");
  expect(forPods.filter((name) => !known.includes(name))).toEqual([]);
  expect(Object.keys(forCompose)).toEqual(forPods);
  expect(Object.values(forCompose)).toEqual(forPods.map(() => ""));
});

describe("the variables of the Compose file", () => {
  const values = { KV_PASSWORD: "0123456789abcdef", SERVICE_OTLP_TOKEN: "token-of-the-collector" };

  test("are known to the service, which starts with them without a warning", async () => {
    const { services } = await readCompose(values);
    for (const name of ["svc-1", "svc-2", "svc-3"]) {
      const environment = services[name]?.environment ?? {};
      const own = Object.keys(environment).filter((key) => key !== "HOME");
      expect(own.filter((key) => !known.includes(key))).toEqual([]);
      const { settings, warnings } = await load({
        ...(await imageEnvironment()),
        ...environment,
        SERVICE_API_KEYS: "0123456789abcdef",
      });
      expect(warnings).toEqual([]);
      expect(settings).toMatchObject({
        podName: name,
        kvUrl: "redis://:0123456789abcdef@kv:6379",
        drainTimeout: 300,
      });
    }
  });

  test("refuse requests without a key", async () => {
    const { services } = await readCompose(values);
    const open = { ...(await imageEnvironment()), ...services["svc-1"]?.environment };
    await expect(load(open)).rejects.toThrow("SERVICE_API_KEYS is not set");
  });
});
