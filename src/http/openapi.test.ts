import { Validator } from "@seriousme/openapi-schema-validator";
import { expect, test } from "vitest";
import { JobEvent } from "../contract/event.ts";
import type { Operation } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { eventsRoute, streamExample } from "./events-route.ts";
import { otlpRoutes } from "./otlp-routes.ts";
import { exampleOf, openapiDocument } from "./openapi.ts";
import { statusRoutes } from "./app.ts";
import { createTestApp } from "./app.fixture.ts";
import { transcriptsRoute } from "./transcripts-route.ts";

type Described = {
  operationId: string;
  tags: string[];
  responses: Record<string, { description: string }>;
  security?: unknown;
};
type Document = {
  openapi: string;
  security: unknown[];
  tags: { name: string }[];
  paths: Record<string, Record<string, Described>>;
};

const routes = [
  ...statusRoutes({ service: { name: "svc" } } as Parameters<typeof statusRoutes>[0]),
  eventsRoute({} as Parameters<typeof eventsRoute>[0]),
  ...otlpRoutes({ token: "t", apiKeys: [] } as unknown as Parameters<typeof otlpRoutes>[0]),
  transcriptsRoute({ bridgeUrl: "http://127.0.0.1:8100" }),
];

const documented = (keyed = true, agent = true): Document =>
  JSON.parse(openapiDocument({ name: "svc", version: "1.2.3", keyed, parts: { agent }, routes })) as Document;

test("the document is valid OpenAPI 3.1", async () => {
  const result = await new Validator().validate(documented());
  expect(result.errors).toBe(undefined);
  expect(result.valid).toBe(true);
  expect(documented().openapi).toMatch(/^3\.1\./);
});

test("it has every operation of the registry with the statuses of its errors, and the other paths", () => {
  const { paths } = documented();
  for (const [name, { http, errors }] of Object.entries(operations)) {
    const described = paths[http.path]?.[http.method];
    expect(described?.operationId).toBe(name);
    const texts = Object.values(described?.responses ?? {}).map(({ description }) => description);
    for (const code of errors) expect(texts.join(" ")).toContain(code);
    expect(Object.keys(described?.responses ?? {})).toEqual(
      expect.arrayContaining(["200", "400", "401", "403", "500", "503"]),
    );
  }
  expect(Object.keys(paths)).toEqual(
    expect.arrayContaining(["/jobs/{job_id}/events", "/health", "/ready", "/metrics", "/otlp/v1/logs"]),
  );
});

test("agent mode's operations stand in it in agent mode only", () => {
  expect(
    Object.keys(documented(true, false).paths).filter((path) => path.startsWith("/completions")),
  ).toEqual([]);
  const described = documented().paths["/completions"]?.["post"];
  expect(described).toMatchObject({ deprecated: true, tags: ["Agent mode"] });
  expect(described?.responses["202"]?.description).toContain("poll_url");
  expect(described?.responses["500"]?.description).toMatch(/internal.*; or what was asked for has failed$/);
});

test("its paths are grouped, each under one of the listed tags", () => {
  const { paths, tags } = documented();
  const groups = tags.map(({ name }) => name);
  expect(groups.slice(0, 2)).toEqual(["Jobs", "Worktrees"]);
  for (const described of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    expect(described.tags).toHaveLength(1);
    expect(groups).toContain(described.tags[0]);
  }
  expect(paths["/jobs/{job_id}/events"]?.["get"]?.tags).toEqual(["Jobs"]);
  expect(paths["/instances"]?.["get"]?.tags).toEqual(["Service"]);
});

test("the root sends a browser to the page, and tells others where to look", async () => {
  const { app } = createTestApp({ apiKeys: ["sesame"] });
  const browser = await app.request("/", { headers: { accept: "text/html,*/*;q=0.8" } });
  expect([browser.status, browser.headers.get("location")]).toEqual([302, "ui/"]);
  const other = await app.request("/", { headers: { "x-api-key": "sesame", accept: "*/*" } });
  expect(await other.json()).toMatchObject({ page: "/ui/", docs: "/docs", openapi: "/openapi.json" });
  expect((await app.request("/")).status).toBe(401);
});

test("a key is demanded where keys are set, except for health and readiness", () => {
  expect(documented(true).security).toEqual([{ header: [] }, { bearer: [] }, { query: [] }]);
  expect(documented(false).security).toContainEqual({});
  for (const path of ["/health", "/ready"]) expect(documented().paths[path]?.["get"]?.security).toEqual([]);
});

test("every example fits its schema", () => {
  for (const { http, input, output, example } of Object.values<Operation>(operations)) {
    if (http.method === "post" || http.method === "put") input.parse(exampleOf(input));
    const answer = exampleOf(output, example);
    expect(output.strict().parse(answer)).toEqual(answer);
  }
  JobEvent.parse(JSON.parse(/data: (.*)/.exec(streamExample)?.[1] ?? ""));
});

test("it is served, and its page loads everything from the service", async () => {
  const { app } = createTestApp();
  const served = (await (await app.request("/openapi.json")).json()) as { info: unknown };
  expect(served.info).toMatchObject({ title: "svc", version: "1.2.3" });
  const page = await (await app.request("/docs")).text();
  for (const [, link] of page.matchAll(/(?:src|href)="(docs\/[^"]+)"/g)) {
    const answer = await app.request(`/${link}`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get("content-type")).toMatch(/^text\/(css|javascript); charset=utf-8$/);
    expect((await answer.text()).length).toBeGreaterThan(100);
  }
});
