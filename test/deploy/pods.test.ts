import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { IStatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import type { IJob } from "kubernetes-models/batch/v1/Job";
import type { IPersistentVolumeClaim } from "kubernetes-models/v1/PersistentVolumeClaim";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";
import type { IServiceAccount } from "kubernetes-models/v1/ServiceAccount";
import { describe, expect, test } from "vitest";
import { variables } from "../../src/config/variables.ts";
import {
  configuration,
  deploy,
  find,
  objectsIn,
  ofKind,
  overlays,
  render,
  serviceContainer,
  serviceSet,
  type KubernetesObject,
} from "./rendered.ts";

/** Every pod that the objects make, by the name of what makes it. */
const pods = (objects: KubernetesObject[]): [name: string, spec: IPodSpec][] =>
  [...ofKind<IStatefulSet>(objects, "StatefulSet"), ...ofKind<IJob>(objects, "Job")].map((owner) => {
    const spec = owner.spec?.template.spec;
    if (spec === undefined) throw new Error("a pod without a spec");
    return [owner.metadata?.name ?? "", spec];
  });

describe.each(overlays)("every pod of the overlay %s", (overlay) => {
  test("runs as a user without rights, on a root file system that cannot be written to", async () => {
    for (const [, spec] of pods(await render(overlay))) {
      expect(spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
      });
      expect(spec.securityContext?.runAsUser).toBeGreaterThan(0);
      for (const key of ["hostNetwork", "hostPID", "hostIPC", "initContainers"])
        expect(spec).not.toHaveProperty(key);
      for (const { securityContext } of spec.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
      for (const volume of spec.volumes ?? []) expect(volume.hostPath).toBeUndefined();
    }
  });

  test("has no token of Kubernetes and no variables made from Services", async () => {
    const objects = await render(overlay);
    for (const [, spec] of pods(objects))
      expect(spec).toMatchObject({
        serviceAccountName: "svc",
        automountServiceAccountToken: false,
        enableServiceLinks: false,
      });
    const [account, ...others] = ofKind<IServiceAccount>(objects, "ServiceAccount");
    expect(account?.automountServiceAccountToken).toBe(false);
    expect(others).toEqual([]);
  });

  test("is limited in memory and has probes if it serves", async () => {
    for (const [, spec] of pods(await render(overlay))) {
      for (const { resources, ports, readinessProbe, livenessProbe, startupProbe } of spec.containers) {
        expect(resources?.requests).toMatchObject({
          cpu: expect.anything() as unknown,
          memory: expect.anything() as unknown,
        });
        expect(resources?.limits).toMatchObject({ memory: expect.anything() as unknown });
        const probes = [readinessProbe, livenessProbe, startupProbe].filter((probe) => probe !== undefined);
        expect(probes).toHaveLength(ports === undefined ? 0 : 3);
      }
    }
  });

  test("gets secrets by reference only", async () => {
    const objects = await render(overlay);
    const secret = Object.values(variables)
      .filter((variable) => "secret" in variable && variable.secret)
      .map(({ name }) => name);
    expect(secret).toContain("KV_URL");
    expect(Object.keys(configuration(objects)).filter((name) => secret.includes(name))).toEqual([]);
    for (const [, spec] of pods(objects)) {
      const literal = spec.containers
        .flatMap(({ env }) => env ?? [])
        .filter(({ value }) => value !== undefined);
      expect(
        literal
          .map(({ name }) => name)
          .filter((name) => secret.includes(name) || /PASSWORD|AUTH|TOKEN/.test(name)),
      ).toEqual([]);
    }
  });

  test("refers only to secrets and keys that the example has", async () => {
    const example = objectsIn(
      await readFile(join(deploy, "kubernetes", "secrets.example.yaml"), "utf8"),
    ) as (KubernetesObject & {
      stringData: Record<string, string>;
    })[];
    expect(
      example.flatMap(({ stringData }) => Object.values(stringData)).filter((value) => value !== ""),
    ).toEqual([]);
    const known = example.flatMap(({ metadata, stringData }) => [
      metadata.name,
      ...Object.keys(stringData).map((key) => `${metadata.name}/${key}`),
    ]);
    const used = pods(await render(overlay))
      .flatMap(([, spec]) =>
        spec.containers.flatMap(({ env, envFrom }) => [
          ...(envFrom ?? []).map(({ secretRef }) => secretRef?.name),
          ...(env ?? [])
            .map(({ valueFrom }) => valueFrom?.secretKeyRef)
            .map((ref) => ref && `${String(ref.name)}/${ref.key}`),
        ]),
      )
      .filter((name) => name !== undefined);
    expect(used).toContain("svc-secrets");
    expect(used.filter((name) => !known.includes(name))).toEqual([]);
  });

  test("mounts volumes that there are", async () => {
    const objects = await render(overlay);
    const claims = ofKind<IPersistentVolumeClaim>(objects, "PersistentVolumeClaim").map(
      ({ metadata }) => metadata?.name,
    );
    const templates = ofKind<IStatefulSet>(objects, "StatefulSet").flatMap(
      ({ spec }) => spec?.volumeClaimTemplates ?? [],
    );
    for (const [, spec] of pods(objects)) {
      const volumes = [
        ...(spec.volumes ?? []).map(({ name }) => name),
        ...templates.map(({ metadata }) => metadata?.name),
      ];
      for (const { volumeMounts } of spec.containers)
        for (const { name } of volumeMounts ?? []) expect(volumes).toContain(name);
      for (const { persistentVolumeClaim } of spec.volumes ?? [])
        expect([undefined, ...claims]).toContain(persistentVolumeClaim?.claimName);
    }
  });
});

describe.each(overlays)("the service of the overlay %s", (overlay) => {
  test("is watched at /health and gets requests by /ready", async () => {
    const { livenessProbe, readinessProbe, startupProbe, ports } = serviceContainer(await render(overlay));
    expect(ports).toEqual([{ name: "http", containerPort: 8200, protocol: "TCP" }]);
    expect(startupProbe?.httpGet).toEqual({ path: "/health", port: "http" });
    expect(livenessProbe?.httpGet).toEqual({ path: "/health", port: "http" });
    expect(readinessProbe?.httpGet).toEqual({ path: "/ready", port: "http" });
  });

  test("is named by its pod and reached at its address, and the image's own process 1 starts it", async () => {
    const { env, args, command } = serviceContainer(await render(overlay));
    expect(env).toContainEqual({
      name: "SERVICE_POD_NAME",
      valueFrom: { fieldRef: { fieldPath: "metadata.name" } },
    });
    // A variable that is used in another one comes before it.
    expect(env?.filter(({ name }) => /^(POD_IP|SERVICE_ADDRESS)$/.test(name))).toEqual([
      { name: "POD_IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
      { name: "SERVICE_ADDRESS", value: "http://$(POD_IP):8200" },
    ]);
    expect({ args, command }).toEqual({ args: ["serve"], command: undefined });
  });

  test("has its worktrees and its home on a disk of its own, the rest on the shared one", async () => {
    const objects = await render(overlay);
    const mounts = Object.fromEntries(
      (serviceContainer(objects).volumeMounts ?? []).map(({ mountPath, name }) => [mountPath, name]),
    );
    expect(mounts).toEqual({ "/var/lib/svc": "local", "/shared": "shared", "/tmp": "tmp" });
    expect(
      serviceSet(objects).spec?.volumeClaimTemplates?.map(({ metadata, spec }) => [
        metadata?.name,
        spec?.accessModes,
      ]),
    ).toEqual([["local", ["ReadWriteOnce"]]]);
    expect(configuration(objects)).toMatchObject({
      SERVICE_WORKTREE_ROOT: "/var/lib/svc/worktrees",
      SERVICE_SHARED_FS_ROOT: "/shared",
      SERVICE_REPOS_ROOT: "/shared/repos",
      SERVICE_JOBS_DIR: "/shared/job-state",
    });
  });

  test("has the time to drain, to end its agents and to save their work before it is killed", async () => {
    const objects = await render(overlay);
    const pod = serviceSet(objects).spec?.template.spec;
    const before = Number(serviceContainer(objects).lifecycle?.preStop?.exec?.command?.at(-1) ?? 0);
    const after = Number(configuration(objects)["SERVICE_DRAIN_TIMEOUT"]);
    expect(before + after).toBeGreaterThanOrEqual(300);
    const saving = 30;
    expect(pod?.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      before + after + Number(variables.agentCliKillGrace.default) + saving,
    );
  });
});

test("instances on one store are drained before they are stopped; a single one drains by itself", async () => {
  const hook = async (overlay: (typeof overlays)[number]) =>
    serviceContainer(await render(overlay)).lifecycle;
  const drain = { preStop: { exec: { command: ["svc", "drain", "--timeout", "300"] } } };
  expect([await hook("single"), await hook("cluster"), await hook("keda")]).toEqual([
    undefined,
    drain,
    drain,
  ]);
});

test("one instance has no store and a disk for itself, three have a store and a file system for all", async () => {
  const shape = async (overlay: (typeof overlays)[number]) => {
    const objects = await render(overlay);
    const claim = find<IPersistentVolumeClaim>(objects, "PersistentVolumeClaim", "svc-shared");
    const kv = serviceContainer(objects).env?.find(({ name }) => name === "KV_URL")?.valueFrom?.secretKeyRef;
    return { replicas: serviceSet(objects).spec?.replicas, modes: claim.spec?.accessModes, kv };
  };
  const kv = { name: "svc-kv", key: "url" };
  expect(await shape("single")).toEqual({ replicas: 1, modes: ["ReadWriteOnce"], kv: undefined });
  expect(await shape("cluster")).toEqual({ replicas: 3, modes: ["ReadWriteMany"], kv });
  expect(await shape("keda")).toEqual({ replicas: undefined, modes: ["ReadWriteMany"], kv });
});

test("the shared file system is prepared by the program itself, and the job goes away so that an update can create it again", async () => {
  const { spec } = find<IJob>(await render("cluster"), "Job", "svc-init-shared-fs");
  expect(spec?.template.spec?.containers[0]).toMatchObject({
    args: ["init-shared-fs"],
    env: [{ name: "SERVICE_SHARED_FS_ROOT", value: "/shared" }],
    volumeMounts: expect.arrayContaining([{ name: "shared", mountPath: "/shared" }]) as unknown,
  });
  expect(spec?.ttlSecondsAfterFinished).toBeLessThanOrEqual(600);
});
