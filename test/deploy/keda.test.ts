import { Queue, Worker } from "bullmq";
import { Redis } from "ioredis";
import type { IScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import type { ITriggerAuthentication } from "@kubernetes-models/keda/keda.sh/v1alpha1/TriggerAuthentication";
import { expect, test } from "vitest";
import { afterFile } from "../cleanup.ts";
import { startRedis } from "../redis.ts";
import { until } from "../until.ts";
import { configuration, find, render, serviceContainer, serviceSet } from "./rendered.ts";

const scaled = async () => find<IScaledObject>(await render("keda"), "ScaledObject", "svc").spec;

const listOf = async (name: string): Promise<string> => {
  const trigger = (await scaled()).triggers.find((one) => one.name === name);
  return trigger?.metadata["listName"] ?? "";
};

test("the lists that KEDA measures are those that the shared queue writes", async () => {
  const objects = await render("keda");
  const prefix = `{${configuration(objects)["KV_KEY_PREFIX"] ?? ""}:q}`;
  const { port } = await startRedis();
  const connection = { host: "127.0.0.1", port };
  const redis = new Redis({ ...connection });
  const queue = new Queue("jobs", { connection, prefix });
  const worker = new Worker("jobs", () => new Promise(() => undefined), {
    connection,
    prefix,
    concurrency: 2,
    autorun: false,
  });
  queue.on("error", () => undefined);
  worker.on("error", () => undefined);
  afterFile(async () => {
    redis.disconnect();
    await Promise.allSettled([worker.close(true), queue.close()]);
  });
  const lengths = async () => [
    await redis.llen(await listOf("waiting")),
    await redis.llen(await listOf("active")),
  ];

  for (const id of ["a", "b", "c", "d", "e"]) await queue.add("job", {}, { jobId: id });
  expect(await lengths()).toEqual([5, 0]);
  void worker.run();
  await until(async () => (await lengths()).join() === "3,2" || undefined);
});

test("there are as many instances as waiting and running jobs need, at the number that each runs at once", async () => {
  const spec = await scaled();
  expect(spec.triggers.map(({ name, type }) => [name, type])).toEqual([
    ["waiting", "redis"],
    ["active", "redis"],
  ]);
  const each = configuration(await render("keda"))["SERVICE_MAX_PARALLEL_JOBS"];
  expect(spec.advanced?.scalingModifiers).toEqual({
    formula: "waiting + active",
    target: each,
    metricType: "AverageValue",
  });
  expect(spec.triggers.map(({ metadata }) => metadata["listLength"])).toEqual([each, each]);
});

test("the autoscaler alone sets the number of instances, at least one, and keeps it while the store is unreachable", async () => {
  const objects = await render("keda");
  const spec = await scaled();
  expect(spec.scaleTargetRef).toEqual({
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    name: serviceSet(objects).metadata?.name,
  });
  expect(serviceSet(objects).spec).not.toHaveProperty("replicas");
  expect(spec.minReplicaCount).toBe(1);
  expect(spec.maxReplicaCount).toBeGreaterThan(3);
  expect(spec.idleReplicaCount).toBeUndefined();
  expect(spec.fallback).toMatchObject({ behavior: "currentReplicas" });
});

test("instances are removed one by one, each when the one before has stopped", async () => {
  const grace =
    serviceSet(await render("keda")).spec?.template.spec?.terminationGracePeriodSeconds ?? Infinity;
  const down = (await scaled()).advanced?.horizontalPodAutoscalerConfig?.behavior?.scaleDown;
  expect(down?.policies).toHaveLength(1);
  expect(down?.policies?.[0]).toMatchObject({ type: "Pods", value: 1 });
  expect(down?.policies?.[0]?.periodSeconds).toBeGreaterThan(grace);
  expect(down?.stabilizationWindowSeconds).toBeGreaterThanOrEqual(300);
});

test("KEDA has the store's address and password from the secret that the service has its URL from", async () => {
  const objects = await render("keda");
  const authentication = find<ITriggerAuthentication>(objects, "TriggerAuthentication", "svc-kv");
  const secret = serviceContainer(objects).env?.find(({ name }) => name === "KV_URL")?.valueFrom?.secretKeyRef
    ?.name;
  expect(authentication.spec.secretTargetRef).toEqual([
    { parameter: "address", name: secret, key: "address" },
    { parameter: "password", name: secret, key: "password" },
  ]);
  for (const { authenticationRef, metadata } of (await scaled()).triggers) {
    expect(authenticationRef).toEqual({ name: "svc-kv" });
    expect(Object.keys(metadata).filter((key) => /password|address|host/i.test(key))).toEqual([]);
  }
});
