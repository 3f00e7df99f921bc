import { execFile } from "node:child_process";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { TriggerAuthentication } from "@kubernetes-models/keda/keda.sh/v1alpha1/TriggerAuthentication";
import { StatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import { Job } from "kubernetes-models/batch/v1/Job";
import { NetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import { ConfigMap } from "kubernetes-models/v1/ConfigMap";
import { PersistentVolumeClaim } from "kubernetes-models/v1/PersistentVolumeClaim";
import { Secret } from "kubernetes-models/v1/Secret";
import { Service } from "kubernetes-models/v1/Service";
import { ServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../temporary.ts";
import { deploy, objectsIn, overlays, render, type KubernetesObject } from "./rendered.ts";

const run = promisify(execFile);
const modules = join(import.meta.dirname, "..", "..", "node_modules");

type Model = { validate: () => void };

/** What may be in an overlay. A LoadBalancer's Service is refused by another test; an Ingress is refused because it is not in this list. */
const models: Record<string, (data: never) => Model> = {
  "apps/v1/StatefulSet": (data) => new StatefulSet(data),
  "batch/v1/Job": (data) => new Job(data),
  "networking.k8s.io/v1/NetworkPolicy": (data) => new NetworkPolicy(data),
  "policy/v1/PodDisruptionBudget": (data) => new PodDisruptionBudget(data),
  "v1/ConfigMap": (data) => new ConfigMap(data),
  "v1/PersistentVolumeClaim": (data) => new PersistentVolumeClaim(data),
  "v1/Service": (data) => new Service(data),
  "v1/ServiceAccount": (data) => new ServiceAccount(data),
  "keda.sh/v1alpha1/ScaledObject": (data) => new ScaledObject(data),
  "keda.sh/v1alpha1/TriggerAuthentication": (data) => new TriggerAuthentication(data),
};
const withSecret = { ...models, "v1/Secret": (data: never) => new Secret(data) };

const path = ({ apiVersion, kind }: KubernetesObject): string => `${apiVersion}/${kind}`;

/** What Kubernetes' own schemas say against the objects: values of a wrong type or form, and what is missing. */
const faults = (
  objects: KubernetesObject[],
  known: Record<string, (data: never) => Model> = models,
): string[] =>
  objects.flatMap((object) => {
    try {
      const model = known[path(object)];
      if (model === undefined) return [`${path(object)} is not expected`];
      model(object as never).validate();
      return [];
    } catch (error) {
      return [`${object.kind} ${object.metadata.name}: ${String(error)}`];
    }
  });

/**
 * Fields that Kubernetes does not know: it would drop them, and with them what they were meant to do. The compiler finds
 * them, in all groups of objects at once; its complaints begin with the name of the group.
 */
const unknownFields = async (groups: Record<string, KubernetesObject[]>): Promise<string[]> => {
  const directory = await temporaryDirectory();
  await symlink(modules, join(directory, "node_modules"));
  const files = Object.entries(groups).map(async ([name, objects]) => {
    const source = objects.map((object, index) => {
      const place = object.apiVersion.startsWith("keda.sh/")
        ? "@kubernetes-models/keda"
        : "kubernetes-models";
      return `import type { I${object.kind} as T${index} } from "${place}/${path(object)}";\nexport const o${index}: T${index} = ${JSON.stringify(object)};`;
    });
    await writeFile(join(directory, `${name}.ts`), source.join("\n"));
    return `${name}.ts`;
  });
  const options = "--noEmit --strict --skipLibCheck --module nodenext --target es2024 --types".split(" ");
  const args = [...options, "", ...(await Promise.all(files))];
  const { stdout } = await run(join(modules, ".bin", "tsc"), args, { cwd: directory }).catch(
    (error: unknown) => error as { stdout: string },
  );
  return stdout.split("\n").filter((line) => /^\w+\.ts/.test(line));
};

test.each(overlays)("the overlay %s is accepted by the schemas of Kubernetes and KEDA", async (overlay) => {
  const objects = await render(overlay);
  expect(objects.length).toBeGreaterThan(5);
  expect(faults(objects)).toEqual([]);
});

test("no overlay has a field that they do not know; one that is misspelt deep within is found", async () => {
  const groups: Record<string, KubernetesObject[]> = {};
  for (const overlay of overlays) groups[overlay] = await render(overlay);
  const [set] = (groups["single"] ?? []).filter(({ kind }) => kind === "StatefulSet");
  const text = JSON.stringify(set).replace("readOnlyRootFilesystem", "readonlyRootFilesystem");
  const found = await unknownFields({ ...groups, misspelt: [JSON.parse(text) as KubernetesObject] });
  expect(found).toEqual([expect.stringMatching(/^misspelt\.ts.*readonlyRootFilesystem/)]);
});

test("a wrong value, a missing one and an unknown kind would be found", () => {
  const set = {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { name: "x" },
    spec: { replicas: "three" },
  };
  expect(faults([set])).toEqual([expect.stringContaining("replicas must be integer")]);
  expect(faults([{ ...set, spec: { replicas: 3 } } as KubernetesObject])).toEqual([
    expect.stringContaining("required"),
  ]);
  expect(faults([{ apiVersion: "networking.k8s.io/v1", kind: "Ingress", metadata: { name: "x" } }])).toEqual([
    "networking.k8s.io/v1/Ingress is not expected",
  ]);
});

test("the example of the secrets is accepted, too, and in no overlay", async () => {
  const example = await readFile(join(deploy, "kubernetes", "secrets.example.yaml"), "utf8");
  expect(faults(objectsIn(example), withSecret)).toEqual([]);
  for (const overlay of overlays)
    expect((await render(overlay)).map(({ kind }) => kind)).not.toContain("Secret");
});
