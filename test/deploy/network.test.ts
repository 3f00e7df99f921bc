import type { INetworkPolicy } from "kubernetes-models/networking.k8s.io/v1/NetworkPolicy";
import type { IStatefulSet } from "kubernetes-models/apps/v1/StatefulSet";
import type { IJob } from "kubernetes-models/batch/v1/Job";
import type { IPodDisruptionBudget } from "kubernetes-models/policy/v1/PodDisruptionBudget";
import type { IService } from "kubernetes-models/v1/Service";
import { describe, expect, test } from "vitest";
import { find, ofKind, overlays, render, serviceSet } from "./rendered.ts";

describe.each(overlays)("the overlay %s", (overlay) => {
  test("opens nothing to the outside of the cluster", async () => {
    const objects = await render(overlay);
    for (const { spec } of ofKind<IService>(objects, "Service")) {
      expect(spec?.type).toBe("ClusterIP");
      expect(
        [
          spec?.externalIPs,
          spec?.loadBalancerIP,
          ...(spec?.ports ?? []).map(({ nodePort }) => nodePort),
        ].filter((value) => value !== undefined),
      ).toEqual([]);
    }
    expect(objects.map(({ kind }) => kind).filter((kind) => /Ingress|Route|Gateway/.test(kind))).toEqual([]);
    for (const { spec } of ofKind<IStatefulSet>(objects, "StatefulSet"))
      for (const { ports } of spec?.template.spec?.containers ?? [])
        expect((ports ?? []).filter(({ hostPort }) => hostPort !== undefined)).toEqual([]);
  });

  test("denies every one of its pods all traffic that no rule allows", async () => {
    const objects = await render(overlay);
    const { spec } = find<INetworkPolicy>(objects, "NetworkPolicy", "svc-default-deny");
    expect(spec).toEqual({
      podSelector: { matchLabels: { "app.kubernetes.io/part-of": "svc" } },
      policyTypes: ["Ingress", "Egress"],
    });
    const made = [...ofKind<IStatefulSet>(objects, "StatefulSet"), ...ofKind<IJob>(objects, "Job")];
    for (const owner of made)
      expect(owner.spec?.template.metadata?.labels).toMatchObject({ "app.kubernetes.io/part-of": "svc" });
  });

  test("has no rule that lets everybody in, and lets pods in to the service by a label", async () => {
    const rules = ofKind<INetworkPolicy>(await render(overlay), "NetworkPolicy").flatMap(
      ({ spec }) => spec?.ingress ?? [],
    );
    for (const { from, ports } of rules) {
      expect(from?.length).toBeGreaterThan(0);
      expect(ports?.length).toBeGreaterThan(0);
      for (const { podSelector } of from ?? [])
        expect(Object.keys(podSelector?.matchLabels ?? {}).length).toBeGreaterThan(0);
    }
    for (const label of [{ "svc-client": "true" }, { "app.kubernetes.io/name": "otel-collector" }])
      expect(rules).toContainEqual({
        from: [{ podSelector: { matchLabels: label } }],
        ports: [{ port: 8200, protocol: "TCP" }],
      });
  });

  test("lets the service out to names, git and the model, but not to private networks or a cloud's metadata", async () => {
    const { spec } = find<INetworkPolicy>(await render(overlay), "NetworkPolicy", "svc");
    const out = spec?.egress ?? [];
    const ports = out.map((rule) => [...new Set((rule.ports ?? []).map(({ port }) => port))]);
    expect(ports).toEqual([[53], [443, 22], [5432], [4317, 4318]]);
    const blocks = out
      .flatMap(({ to }) => to ?? [])
      .flatMap(({ ipBlock }) => (ipBlock === undefined ? [] : [ipBlock]));
    const open = blocks.filter(({ cidr }) => cidr.endsWith("/0"));
    expect(open.map(({ cidr }) => cidr)).toEqual(["0.0.0.0/0", "::/0"]);
    expect(open[0]?.except).toEqual(
      expect.arrayContaining(["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"]),
    );
    expect(open[1]?.except).toEqual(expect.arrayContaining(["fc00::/7", "fe80::/10"]));
  });

  test("has Services, a budget and rules that select the pods they are meant for", async () => {
    const objects = await render(overlay);
    const labels = [...ofKind<IStatefulSet>(objects, "StatefulSet"), ...ofKind<IJob>(objects, "Job")].map(
      ({ spec }) => spec?.template.metadata?.labels ?? {},
    );
    const selects = (wanted: Record<string, string>): boolean =>
      labels.some((found) => Object.entries(wanted).every(([key, value]) => found[key] === value));
    const selectors = [
      ...ofKind<IService>(objects, "Service").map(({ spec }) => spec?.selector ?? {}),
      ...ofKind<INetworkPolicy>(objects, "NetworkPolicy").map(
        ({ spec }) => spec?.podSelector?.matchLabels ?? {},
      ),
      ...ofKind<IPodDisruptionBudget>(objects, "PodDisruptionBudget").map(
        ({ spec }) => spec?.selector?.matchLabels ?? {},
      ),
    ];
    for (const selector of selectors) {
      expect(Object.keys(selector)).not.toEqual([]);
      expect(selects(selector)).toBe(true);
    }
    const names = ofKind<IService>(objects, "Service").map(({ metadata }) => metadata?.name);
    expect(names).toContain(serviceSet(objects).spec?.serviceName);
  });
});

test("only the service reaches the store, and with KEDA its operator", async () => {
  const toStore = async (overlay: "cluster" | "keda") =>
    ofKind<INetworkPolicy>(await render(overlay), "NetworkPolicy")
      .filter(({ spec }) => spec?.podSelector?.matchLabels?.["app.kubernetes.io/name"] === "svc-kv")
      .flatMap(({ spec }) => spec?.ingress ?? [])
      .flatMap(({ from }) => from ?? []);
  const service = {
    podSelector: {
      matchLabels: { "app.kubernetes.io/name": "svc", "app.kubernetes.io/component": "service" },
    },
  };
  const operator = {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "keda" } },
    podSelector: { matchLabels: { app: "keda-operator" } },
  };
  expect(await toStore("cluster")).toEqual([service]);
  expect(new Set(await toStore("keda"))).toEqual(new Set([service, operator]));
});
