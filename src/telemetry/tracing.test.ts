import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { createRedactor } from "../lib/redact.ts";
import { until } from "../../test/until.ts";
import { createTracer, tracingBackend } from "./tracing.ts";

const at = "2026-03-02T09:00:00.000Z";

const listening = async (answer: RequestListener): Promise<string> => {
  const server = createServer(answer).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`;
};

const tracing = async (answer: RequestListener) => {
  const world = { lost: 0, warnings: [] as string[] };
  const tracer = await createTracer({
    backend: { url: await listening(answer), authorization: "Basic c2VjcmV0" },
    service: { name: "svc", version: "1" },
    redact: createRedactor(["a-secret-word"]),
    dropped: (spans) => void (world.lost += spans),
    log: { warn: (...said: unknown[]) => void world.warnings.push(String(said.at(-1))) },
  });
  const span = (name = "job", attributes = {}): void =>
    tracer.start(name, { at, parent: null, attributes }).end(new Date(at));
  return Object.assign(world, { tracer, span });
};

test("secrets are masked in names and attributes", async () => {
  let body = "";
  const { tracer, span } = await tracing((request, response) => {
    request.on("data", (data: Buffer) => (body += data.toString()));
    request.on("end", () => response.end("{}"));
  });
  span("read a-secret-word", { said: "it is a-secret-word" });
  await tracer.close();
  expect(body).toContain('"read ***"');
  expect(body).toContain('"it is ***"');
  expect(body).not.toContain("a-secret-word");
});

test("the backend gets its own credential, and no header that the environment has for other collectors", async () => {
  process.env["OTEL_EXPORTER_OTLP_HEADERS"] = "x-other=a-credential";
  onTestFinished(() => void delete process.env["OTEL_EXPORTER_OTLP_HEADERS"]);
  let headers = {};
  const { tracer, span } = await tracing((request, response) => {
    headers = request.headers;
    response.end("{}");
  });
  span();
  await tracer.close();
  expect(headers).toMatchObject({ authorization: "Basic c2VjcmV0" });
  expect(headers).not.toHaveProperty("x-other");
});

test("what the backend refuses is dropped and counted, with one warning", async () => {
  const world = await tracing((_, response) => void response.writeHead(400).end("no"));
  world.span();
  world.span();
  await until(() => world.lost === 2);
  world.span();
  await until(() => world.lost === 3);
  expect(world.warnings).toEqual([expect.stringContaining("the tracing backend did not take them")]);
});

test("what is more than memory shall hold is dropped and counted", async () => {
  const world = await tracing(() => undefined);
  for (let n = 0; n < 8200; n += 1) world.span();
  expect(world.lost).toBe(8);
});

test("a redirect is not followed: the credentials stay with the backend", async () => {
  const reached: string[] = [];
  const other = await listening((request, response) => {
    reached.push(request.headers.authorization ?? "");
    response.end();
  });
  const world = await tracing((_, response) => void response.writeHead(307, { location: other }).end());
  world.span();
  await until(() => world.lost === 1);
  expect(reached).toEqual([]);
});

test("a backend is one with an address, whatever keys are set", () => {
  const keys = { tracingPublicKey: "pk", tracingSecretKey: "sk", tracingBasicAuth: "cGs6c2s=" };
  expect(tracingBackend({ ...keys, tracingHost: null })).toBeNull();
  expect(tracingBackend({ ...keys, tracingHost: "https://traces.example" })?.url).toMatch(
    /^https:\/\/traces\.example\//,
  );
});
