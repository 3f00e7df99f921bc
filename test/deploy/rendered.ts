import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { IStatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import type { IConfigMap } from "kubernetes-models/v1/ConfigMap";
import type { IContainer } from "kubernetes-models/v1/Container";
import { parseAllDocuments } from "yaml";

const run = promisify(execFile);

export const deploy = join(import.meta.dirname, "..", "..", "deploy");

export const overlays = ["single", "cluster", "keda"] as const;
export type Overlay = (typeof overlays)[number];

/** An object as `kubectl kustomize` prints it. */
export type KubernetesObject = { apiVersion: string; kind: string; metadata: { name: string } };

/** All objects of an overlay, rendered by the kubectl that is on the PATH: nothing is asked of a cluster. Not to be changed. */
export const render = (overlay: Overlay): Promise<KubernetesObject[]> =>
  (rendered[overlay] ??= kustomize(overlay));

const rendered: Partial<Record<Overlay, Promise<KubernetesObject[]>>> = {};

const kustomize = async (overlay: Overlay): Promise<KubernetesObject[]> => {
  const directory = join(deploy, "kubernetes", "overlays", overlay);
  const { stdout } = await run("kubectl", ["kustomize", directory], { maxBuffer: 10_000_000 });
  return objectsIn(stdout);
};

export const objectsIn = (yaml: string): KubernetesObject[] =>
  parseAllDocuments(yaml).map((document) => {
    if (document.errors.length > 0) throw new Error(String(document.errors));
    return document.toJS() as KubernetesObject;
  });

/** The objects of a kind; the caller names its type. */
export const ofKind = <Kind>(objects: KubernetesObject[], kind: string): Kind[] =>
  objects.filter((object) => object.kind === kind) as Kind[];

/** The one object of this kind and name. */
export const find = <Kind>(objects: KubernetesObject[], kind: string, name: string): Kind => {
  const [found, ...more] = objects.filter((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined || more.length > 0)
    throw new Error(`there are ${more.length + (found ? 1 : 0)} ${kind} ${name}`);
  return found as Kind;
};

export const serviceSet = (objects: KubernetesObject[]): IStatefulSet =>
  find<IStatefulSet>(objects, "StatefulSet", "svc");

/** The container that runs the service. */
export const serviceContainer = (objects: KubernetesObject[]): IContainer => {
  const container = serviceSet(objects).spec?.template.spec?.containers[0];
  if (container === undefined) throw new Error("the StatefulSet svc has no container");
  return container;
};

/** The variables that the service's pods get from the ConfigMap; its name has a hash at the end. */
export const configuration = (objects: KubernetesObject[]): Record<string, string> => {
  const map = ofKind<IConfigMap>(objects, "ConfigMap").find(({ metadata }) =>
    metadata?.name?.startsWith("svc-config-"),
  );
  return map?.data ?? {};
};
